package agent

import (
	"os"
	"path/filepath"
	"time"
)

// podLogs is where the kubelet keeps the logs of containers, in files that it numbers by start.
const podLogs = "/var/log/pods"

// backOffMemory is how long the kubelet counts the exits of a container: twice its longest
// back-off.
const backOffMemory = 10 * time.Minute

// recentExits returns how many containers of a static pod have exited within the kubelet's
// memory, by their logs: also before there was an agent.
func (m manifest) recentExits(logs string, now time.Time) (exits int) {
	pod, err := m.read()
	if err != nil {
		return 0
	}
	meta, _ := pod["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		return 0
	}
	// NAMESPACE_NAME-NODE_UID/CONTAINER/NUMBER.log; the newest is that of the running container.
	all, _ := filepath.Glob(filepath.Join(logs, "*_"+name+"-*", "*", "*.log"))
	for _, file := range all {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) < backOffMemory {
			exits++
		}
	}
	return max(0, exits-1)
}
