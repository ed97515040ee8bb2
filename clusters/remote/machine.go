package remote

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// sameMachines returns an error unless each node of the inventory that was seen is its own machine:
// an SSH destination with a typo may be a machine of another cluster, without the consent of
// its owner.
func (a *access) sameMachines(ctx context.Context, seen map[string]*found) error {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	before := map[string]*sight{}
	for _, n := range a.Spec.Nodes {
		s := seen[n.Name].sight
		if len(s.processes) == 0 {
			continue // it cannot be reached
		}
		if err := leadsTo(n, s, nodes); err != nil {
			return err
		}
		if err := alone(n, s, before); err != nil {
			return err
		}
		before[n.Name] = s
	}
	return nil
}

// alone returns an error if what was seen is also the machine of another node, with whose agent
// one of this node would share the network. Containers of one machine share only its boot ID.
func alone(n clusters.InventoryNode, s *sight, others map[string]*sight) error {
	for _, name := range slices.Sorted(maps.Keys(others)) {
		o := others[name]
		if s.boot != "" && s.network != "" && s.boot == o.boot && s.network == o.network {
			return fmt.Errorf("ssh %s of node %s leads to the machine of node %s (host name %s, the same boot ID and network namespace): correct ssh in the inventory, in which each node is a machine of its own",
				n.SSH, n.Name, name, s.host)
		}
	}
	return nil
}

// leadsTo returns an error unless what was seen is the machine of a node. Its kubelet reports
// the machine's ID and that of its boot; one without a kubelet (k0s) has the node's address.
func leadsTo(n clusters.InventoryNode, s *sight, nodes []corev1.Node) error {
	identified := false
	if i := slices.IndexFunc(nodes, func(node corev1.Node) bool { return node.Name == n.Name }); i >= 0 {
		info := nodes[i].Status.NodeInfo
		for _, id := range []struct{ name, want, got string }{{"machine ID", info.MachineID, s.machine}, {"boot ID", info.BootID, s.boot}} {
			if id.want == "" || id.got == "" {
				continue
			}
			if id.want != id.got {
				return fmt.Errorf("ssh %s reaches a machine other than node %s: its %s is %s, and the kubelet of %s reports %s; correct ssh in the inventory (if the machine has just rebooted, try again)",
					n.SSH, n.Name, id.name, id.got, n.Name, id.want)
			}
			identified = true
		}
	}
	if _, ok := s.devices[n.Address]; ok || identified {
		return nil
	}
	own := framework.Names(slices.SortedFunc(maps.Keys(s.devices), netip.Addr.Compare), netip.Addr.String)
	return fmt.Errorf("ssh %s leads to a machine (host name %s, addresses %s) without the address of node %s, %s: correct ssh or address in the inventory",
		n.SSH, s.host, strings.Join(own, ", "), n.Name, n.Address)
}
