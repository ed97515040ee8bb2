package local

import (
	"slices"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// Binary is something that a cluster runs and release.Fetch can fetch.
type Binary struct {
	Product release.Product
	Version string
}

// Binaries returns what must be in the cache before Create or Up.
func Binaries(spec *clusters.Cluster) []Binary {
	all := []Binary{{release.Kubernetes, spec.Spec.KubernetesVersion}}
	add := func(b Binary) {
		if !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	for _, n := range spec.Nodes() {
		add(Binary{release.Kubernetes, n.KubernetesVersion})
		if n.EtcdVersion != "" && n.EtcdVersion != release.EmbeddedEtcd {
			add(Binary{release.Etcd, n.EtcdVersion})
		}
	}
	if spec.Spec.Workers > 0 || spec.Spec.RegisterNodes {
		add(Binary{release.Kwok, release.DefaultKwok})
	}
	return all
}
