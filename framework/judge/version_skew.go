package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func versionSkew() definition {
	return definition{Doc{
		Name:      "version-skew",
		Guarantee: "The newest and the oldest API server are at most one minor version apart; no controller manager or scheduler is newer than an API server that it talks to, or more than one minor version older.",
		Source:    "Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy)",
	}, judgeVersionSkew}
}

func judgeVersionSkew(m *matter) finding {
	var missing []string
	var servers, clients []released
	for _, n := range m.run.Meta.Nodes {
		for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			if !slices.Contains(n.Components, c) {
				continue
			}
			r := released{node: n.Name, component: c, version: m.versionOf(n.Name, c)}
			var ok bool
			switch r.minor, ok = parseMinor(r.version); {
			case !ok:
				missing = append(missing, fmt.Sprintf("the version of %s on %s", c, n.Name))
			case c == "kube-apiserver":
				servers = append(servers, r)
			default:
				clients = append(clients, r)
			}
		}
	}
	all := len(servers) + len(clients)
	if f := skewOfServers(servers); f != nil {
		return f.counted("%d components", all)
	}
	for _, c := range clients {
		asked := m.asked(c)
		known := false
		for _, s := range servers {
			if !slices.Contains(asked, s.node) {
				continue
			}
			known = true
			switch n, ok := c.newer(s.minor); {
			case !ok || n > 0:
				return failed("No component may be newer than an API server that it talks to: %s talks to %s.", c, s).counted("%d components", all)
			case n < -1:
				return failed("A component may be one minor version older than an API server that it talks to: %s is %d older than %s.", c, -n, s).
					counted("%d components", all)
			}
		}
		if !known {
			missing = append(missing, "the version of an API server that "+c.String()+" talks to")
		}
	}
	if len(missing) > 0 || all == 0 {
		return inconclusive("the record lacks %s", and(missing)).counted("%d components", all)
	}
	oldest, newest := extremes(append(servers, clients...))
	if oldest.minor == newest.minor {
		return passed("All of %d components are of minor version %s.", all, newest.minor).counted("%d components", all)
	}
	return passed("%d components are inside the policy, from %s to %s.", all, oldest, newest).counted("%d components", all)
}

func skewOfServers(servers []released) *finding {
	if len(servers) == 0 {
		return nil
	}
	oldest, newest := extremes(servers)
	if n, ok := newest.newer(oldest.minor); ok && n <= 1 {
		return nil
	}
	f := failed("API servers must be at most one minor version apart: there are %s and %s.", oldest, newest)
	return &f
}

// versionOf returns the version that a component gave itself, or that the cluster
// says it is of.
func (m *matter) versionOf(node, component string) string {
	_, to := m.quiet()
	version := m.run.Meta.Versions[node][component]
	for _, o := range m.run.Ops {
		if op := o.V; op.Purpose == "version" && op.Entrance == node && op.Key == component && op.Outcome == record.OK && op.Call <= to {
			version = op.Value
		}
	}
	return version
}

// asked returns the nodes whose API server a component talks to: that of its own
// node, and those that it was seen to ask for something.
func (m *matter) asked(c released) []string {
	nodes := []string{c.node}
	for _, a := range m.run.Actions {
		if a.V.Component == c.component && a.V.Node == c.node && !slices.Contains(nodes, a.V.Via) {
			nodes = append(nodes, a.V.Via)
		}
	}
	return nodes
}
