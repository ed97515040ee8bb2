package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var versionSkew = Definition{Doc{
	Name:      "version-skew",
	Guarantee: "The newest and the oldest API server are at most one minor version apart; no controller manager or scheduler is newer than an API server that it talks to, or more than one minor version older; no kubelet and no kube-proxy is newer than any API server, or more than three minor versions older.",
	Source:    "Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy)",
}, judgeVersionSkew}

func judgeVersionSkew(m *facts.Case) Finding {
	var missing, hidden []string
	var servers, clients []facts.Released
	_, to := m.Quiet()
	answered := versionsOf(m, func(call, _ record.Nanos) bool { return call <= to })
	noProcesses := slices.Contains(m.Run.Meta.NoAccess, record.Processes)
	for _, n := range m.Run.Meta.Nodes {
		for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			if !slices.Contains(n.Components, c) {
				continue
			}
			r := facts.Released{Node: n.Name, Component: c, Version: cmp.Or(answered[n.Name][c], m.Run.Meta.Versions[n.Name][c])}
			var ok bool
			switch r.Minor, ok = facts.ParseMinor(r.Version); {
			case r.Version == "" && noProcesses && c != "kube-apiserver":
				hidden = append(hidden, c+" on "+n.Name)
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
		return f.number(all, "component")
	}
	for _, c := range clients {
		asked := asked(m, c)
		known := false
		for _, s := range servers {
			if !slices.Contains(asked, s.Node) {
				continue
			}
			known = true
			switch n, ok := c.Newer(s.Minor); {
			case !ok || n > 0:
				return Failed("No component may be newer than an API server that it talks to: %s talks to %s.", c, s).number(all, "component")
			case n < -1:
				return Failed("A component may be at most one minor version older than an API server that it talks to: %s is %d minor versions older than %s.", c, -n, s).
					number(all, "component")
			}
		}
		if !known {
			missing = append(missing, "the version of an API server that "+c.String()+" talks to")
		}
	}
	onNodes, unknown := releasedOnNodes(m)
	missing = append(missing, unknown...)
	for _, c := range onNodes {
		// They reach any API server, through a balancer or not.
		oldest, newest := facts.Extremes(servers)
		if len(servers) == 0 {
			break
		}
		all++
		if n, ok := c.Newer(oldest.Minor); !ok || n > 0 {
			return Failed("No kubelet or kube-proxy may be newer than any API server: %s is newer than %s.", c, oldest).number(all, "component")
		}
		if n, ok := c.Newer(newest.Minor); !ok || n < -maxNodeSkew {
			return Failed("A kubelet or kube-proxy may be at most %d minor versions older than any API server: %s is %d minor versions older than %s.", maxNodeSkew, c, -n, newest).
				number(all, "component")
		}
		clients = append(clients, c)
	}
	if len(missing) > 0 || all == 0 {
		return Inconclusive("the record lacks %s", text.And(missing)).number(all, "component")
	}
	oldest, newest := facts.Extremes(append(servers, clients...))
	if len(hidden) > 0 {
		return notApplicable("The requirement cannot be tested here: it needs access to the processes of the cluster, and nothing else shows the versions of %s. %d other components are within the policy, from %s to %s.",
			text.And(hidden), all, oldest, newest).number(all, "component")
	}
	if oldest.Minor == newest.Minor {
		return Passed("All %d components have minor version %s.", all, newest.Minor).number(all, "component")
	}
	return Passed("%d components are within the policy, from %s to %s.", all, oldest, newest).number(all, "component")
}

// maxNodeSkew is how many minor versions kubelet and kube-proxy may be older than an API
// server (Kubernetes version skew policy).
const maxNodeSkew = 3

// releasedOnNodes returns the kubelets and kube-proxies that were seen, the last version of
// each.
func releasedOnNodes(m *facts.Case) (all []facts.Released, missing []string) {
	_, to := m.Quiet()
	last := map[string]string{}
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == "version" && strings.Contains(op.Key, "/") && op.Call <= to {
			last[op.Key] = op.Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		component, node, _ := strings.Cut(key, "/")
		r := facts.Released{Node: node, Component: component, Version: last[key]}
		var ok bool
		if r.Minor, ok = facts.ParseMinor(r.Version); !ok {
			missing = append(missing, strings.TrimSpace(fmt.Sprintf("the version of %s on %s", component, cmp.Or(node, "the nodes"))))
			continue
		}
		all = append(all, r)
	}
	return all, missing
}

func skewOfServers(servers []facts.Released) *Finding {
	if len(servers) == 0 {
		return nil
	}
	oldest, newest := facts.Extremes(servers)
	if n, ok := newest.Newer(oldest.Minor); ok && n <= 1 {
		return nil
	}
	return Failed("API servers must be at most one minor version apart: %s and %s are not.", oldest, newest).problem()
}

// asked returns the nodes whose API server a component uses: that of its own node, and those that
// it was seen to send requests to: a standby instance only reads its lease.
func asked(m *facts.Case, c facts.Released) []string {
	nodes := []string{c.Node}
	for _, a := range slices.Concat(m.Run.Actions, m.Run.Asked) {
		if a.V.Component == c.Component && a.V.Node == c.Node && !slices.Contains(nodes, a.V.Via) {
			nodes = append(nodes, a.V.Via)
		}
	}
	return nodes
}
