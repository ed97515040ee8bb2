package facts

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// BalancerLeads returns the nodes whose API server the load balancer did not use when it was last
// checked before a time: those without a backend in use, as it reports. If it reports no
// backends, a watch through it must have reached each API server; unknown then names what is
// missing, since a balancer may keep a client on one server by design. Both are empty without a
// load balancer.
func (m *Case) BalancerLeads(to record.Nanos) (without []string, unknown string) {
	i := slices.IndexFunc(m.Run.Meta.Entrances, func(e string) bool { return !m.IsNode(e) })
	if i < 0 {
		return nil, ""
	}
	servers := m.NodesWith("kube-apiserver")
	backends := map[string]record.Backend{}
	for _, b := range m.Run.Backends {
		switch {
		case b.At > to || b.V.Missing != "":
		case b.V.Error != "":
			clear(backends) // it reports all of them again
		default:
			backends[b.V.Name] = b.V
		}
	}
	if len(backends) == 0 {
		return nil, m.unreached(m.Run.Meta.Entrances[i], servers, to)
	}
	for _, n := range servers {
		used := false
		for _, b := range backends {
			used = used || (b.Up || b.Standby) && (b.Name == n.Name || HostOf(b.Address) == n.Address)
		}
		if !used {
			without = append(without, n.Name)
		}
	}
	return without, ""
}

// unreached names the API servers that no watch through an entrance reached before a time; empty
// if each was reached.
func (m *Case) unreached(entrance string, servers []record.Node, to record.Nanos) string {
	watches := 0
	reached := map[string]bool{}
	for _, w := range m.Run.Watches {
		node := m.ServerOf(w.V.Server)
		if w.V.API != APIKubernetes || w.V.Phase != record.WatchOpened || w.V.Entrance != entrance || w.At > to || node == "" {
			continue
		}
		watches++
		reached[node] = true
	}
	var missing []string
	for _, n := range servers {
		if !reached[n.Name] {
			missing = append(missing, n.Name)
		}
	}
	switch {
	case len(missing) == 0:
		return ""
	case watches == 0:
		return "evidence of which API servers the load balancer sends clients to: it does not report them, and no watch through it shows one"
	}
	return fmt.Sprintf("evidence of which API servers the load balancer sends clients to: it does not report them, and none of %d watches through it reached %s", watches, text.And(missing))
}

// ServerOf returns the node that the addresses in a certificate belong to; empty if they belong to
// none or to several.
func (m *Case) ServerOf(server []string) (node string) {
	for _, n := range m.Run.Meta.Nodes {
		if slices.Contains(server, n.Address) {
			if node != "" {
				return ""
			}
			node = n.Name
		}
	}
	return node
}

// StandsBy reports whether the balancer last reported for a node, from a time on, that another
// node has the virtual IP.
func (m *Case) StandsBy(node string, from, to record.Nanos) bool {
	standby := false
	for at, b := range record.Each(m.Run.Backends) {
		if b.Name == node && at >= from && at <= to {
			standby = b.Standby
		}
	}
	return standby
}

// Balanced reports whether there is a load balancer.
func (m *Case) Balanced() bool {
	return slices.ContainsFunc(m.Run.Meta.Entrances, func(e string) bool { return !m.IsNode(e) })
}
