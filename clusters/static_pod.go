package clusters

import (
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// OnNode maps a path of a static pod's container to the node.
func OnNode(pod corev1.Pod, file string) string {
	if file == "" || len(pod.Spec.Containers) == 0 {
		return file
	}
	at, longest := file, -1
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		rest, ok := strings.CutPrefix(file, strings.TrimSuffix(m.MountPath, "/"))
		if !ok || rest != "" && rest[0] != '/' || len(m.MountPath) <= longest {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				at, longest = filepath.Join(v.HostPath.Path, m.SubPath, rest), len(m.MountPath)
			}
		}
	}
	return at
}
