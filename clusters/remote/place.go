package remote

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// ErrOnNode is in the error of a fault on the network of a cluster on one of whose nodes this
// process runs: the fault would cut it off from the other nodes, and its measurements would be
// those of a node with the fault.
var ErrOnNode = errors.New("holdfast runs on a node of the inventory")

// place is where a process runs: the boot of its kernel, and its network namespace.
type place struct{ boot, network string }

// here returns the place of this process.
func here() (place, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return place{}, fmt.Errorf("failed to check whether holdfast runs on a node of the inventory: %w", err)
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return place{}, fmt.Errorf("failed to check whether holdfast runs on a node of the inventory: %w", err)
	}
	return place{strings.TrimSpace(string(boot)), network}, nil
}

// on returns the node on which a process runs that reaches the nodes over SSH, and what shows it;
// empty if it runs on none of them. On the machine of a node it either shares the node's network
// namespace, or, in a container of its own, reaches other nodes from the node's address or from
// one of the node's pods. The boot ID alone is not enough: nodes may be containers beside it.
func (p place) on(inventory []clusters.InventoryNode, seen map[string]*sight, nodes []corev1.Node) (node, shown string) {
	for _, n := range inventory {
		s := seen[n.Name]
		if s.boot != p.boot {
			continue
		}
		if s.network == p.network {
			return n.Name, fmt.Sprintf("%s has the boot ID and the network namespace of this process", n.Name)
		}
		for _, other := range inventory {
			if from := seen[other.Name].client; s.sends(from) || podOn(nodes, n.Name, from) {
				return n.Name, fmt.Sprintf("%s has the boot ID of this process, whose connection to %s comes from %s", n.Name, other.Name, from)
			}
		}
	}
	return "", ""
}

// sends reports whether an address is one from which the machine reaches others.
func (s *sight) sends(from netip.Addr) bool {
	_, ok := s.devices[from]
	return ok && !from.IsLoopback()
}

// podOn reports whether an address is one of a node's pods.
func podOn(nodes []corev1.Node, name string, from netip.Addr) bool {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	return i >= 0 && slices.ContainsFunc(nodes[i].Spec.PodCIDRs, func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		return err == nil && prefix.Contains(from)
	})
}

// onNode returns an error that is ErrOnNode if this process runs on a node.
func (a *access) onNode(ctx context.Context, seen map[string]*sight) error {
	own, err := here()
	if err != nil {
		return err
	}
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	if node, shown := own.on(a.Spec.Nodes, seen, nodes); node != "" {
		return fmt.Errorf("%w, %s (%s), and faults on the network would cut it off: run holdfast on another machine, or choose scenarios without faults on the network, such as --profile observe", ErrOnNode, node, shown)
	}
	return nil
}

// lookAll returns the state of all nodes.
func (a *access) lookAll(ctx context.Context) (map[string]*sight, error) {
	ssh, done, err := shells(a.Inventory)
	if err != nil {
		return nil, err
	}
	defer done()
	return onEach(ctx, a, func(ctx context.Context, n clusters.InventoryNode) (*sight, error) { return ssh[n.Name].look(ctx) })
}

// impairs returns an error unless the network may be impaired.
func (c *Cluster) impairs() error {
	const what = "impair the network"
	if err := c.permits(Network, what); err != nil {
		return err
	}
	if c.onNode != nil {
		return framework.Untouched{Err: refusal{&fault.MissingAbility{Ability: "NetworkFaulter", Of: "cluster " + c.Name(), For: "to " + what, Why: c.onNode.Error()}, c.onNode}}
	}
	return nil
}
