package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRecentExits: containers that exited within the kubelet's memory count, and no others.
func TestRecentExits(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	m := manifest(filepath.Join(dir, "etcd.yaml"))
	write(t, m.path(), "metadata: {name: etcd, namespace: kube-system}\n")
	if n := m.recentExits(dir, now); n != 0 {
		t.Errorf("without logs: %d", n)
	}
	for path, age := range map[string]time.Duration{
		"kube-system_etcd-node-1_u/etcd/3.log":        0, // it runs
		"kube-system_etcd-node-1_u/etcd/2.log":        time.Minute,
		"kube-system_etcd-node-1_u/etcd/1.log":        time.Hour,
		"kube-system_kube-scheduler-node-1_u/s/7.log": time.Minute,
		"kube-system_kube-scheduler-node-1_u/s/8.log": time.Minute,
		"kube-system_etcd-node-1_older/etcd/0.log":    2 * time.Minute,
	} {
		file := filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		write(t, file, "")
		must(t, os.Chtimes(file, now.Add(-age), now.Add(-age)))
	}
	if n := m.recentExits(dir, now); n != 2 {
		t.Errorf("%d exits, want 2", n)
	}
	if n := m.recentExits(dir, now.Add(time.Hour)); n != 0 {
		t.Errorf("%d exits an hour later", n)
	}
}
