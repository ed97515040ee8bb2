package remote

import (
	"slices"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// detectableEtcd are the profiles that are tried on a host of an external etcd, after that of the
// inventory: there it may be a static pod of a kubelet of its own, a unit, or a process.
var detectableEtcd = []string{"kubeadm", "rke2", "systemd", "processes"}

// profilesFor returns the names of the profiles to try on a node.
func profilesFor(name string, n clusters.InventoryNode) []string {
	auto := name == "" || name == "auto"
	switch {
	case auto && n.EtcdOnly():
		return detectableEtcd
	case auto:
		return detectable
	case n.EtcdOnly():
		return append([]string{name}, slices.DeleteFunc(slices.Clone(detectableEtcd), func(one string) bool { return one == name })...)
	}
	return []string{name}
}

// onEtcdHost returns the part of a profile that fits a host of an external etcd.
func (p Profile) onEtcdHost() Profile {
	p.Components = slices.DeleteFunc(slices.Clone(p.Components), func(c ProfileComponent) bool {
		return c.Name != framework.Etcd && c.Name != framework.NodeAgent && c.Name != framework.ContainerRuntime
	})
	p.PKI = "" // kubeadm's, with the key of the CA, is on the control-plane nodes
	return p
}

// main is the component without which a profile does not fit.
func (f *found) main() framework.Component {
	if f.node.EtcdOnly() {
		return framework.Etcd
	}
	return framework.APIServer
}
