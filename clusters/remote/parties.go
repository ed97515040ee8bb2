package remote

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

// parties are the hosts on the network: packets of pods leave their node with the pod's
// address, and those of a node with several networks may not have the inventory's.
func (c *Cluster) parties(ctx context.Context, harness []netip.Prefix) ([]agent.Party, error) {
	nodes, err := c.access.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var all []agent.Party
	workers := agent.Party{Name: framework.WorkersHost}
	further := map[string][]netip.Addr{}
	for _, n := range c.reached {
		all = append(all, agent.Party{Name: n.Name(), Prefixes: []netip.Prefix{single(n.Address())}, Agents: []*agent.Client{n.Client}})
		further[n.Name()] = n.found.addresses()
	}
	for _, item := range nodes {
		own := &workers
		if i := slices.IndexFunc(all, func(p agent.Party) bool { return p.Name == item.Name }); i >= 0 {
			own = &all[i]
		}
		for _, a := range item.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			switch {
			case err != nil || a.Type != corev1.NodeInternalIP:
			case own == &workers:
				own.Prefixes = append(own.Prefixes, single(addr))
			default:
				further[item.Name] = append(further[item.Name], addr)
			}
		}
		for _, cidr := range item.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(cidr); err == nil {
				own.Prefixes = append(own.Prefixes, p)
			}
		}
	}
	if len(workers.Prefixes) > 0 {
		all = append(all, workers)
	}
	addAddresses(all, further)
	if len(harness) > 0 {
		all = append(all, agent.Party{Name: framework.HarnessHost, Prefixes: harness})
	}
	return all, nil
}

// addAddresses adds further addresses of nodes to their parties, without those that a party already has
// and those of several nodes, such as a virtual IP: no packet may be of two parties.
func addAddresses(parties []agent.Party, further map[string][]netip.Addr) {
	for i := range parties {
		own := &parties[i]
		for _, addr := range further[own.Name] {
			taken := slices.ContainsFunc(parties, func(p agent.Party) bool {
				return p.Name != own.Name && slices.Contains(further[p.Name], addr) ||
					slices.ContainsFunc(p.Prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
			})
			if addr.IsGlobalUnicast() && !taken {
				own.Prefixes = append(own.Prefixes, single(addr))
			}
		}
	}
}

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// addresses returns the addresses at which the node's member of etcd and its API server can be reached,
// as they advertise them.
func (f *found) addresses() (all []netip.Addr) {
	if etcd, ok := f.processes[framework.Etcd]; ok {
		for _, u := range slices.Concat(urlsOf(etcd, "initial-advertise-peer-urls"), urlsOf(etcd, "advertise-client-urls")) {
			if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
				all = append(all, addr)
			}
		}
	}
	if addr, err := netip.ParseAddr(f.file(framework.APIServer, "advertise-address")); err == nil {
		all = append(all, addr)
	}
	return all
}
