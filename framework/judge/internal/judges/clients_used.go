package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// usedBefore is the period before a fault in which a client must have used the API server that is
// hit.
const usedBefore = 10 * time.Second

// serversUsed returns the API servers that clients of an entrance used shortly before a time, as far
// as responses name them.
func serversUsed(m *facts.Case, entrance string, before record.Nanos) map[string]bool {
	used := map[string]bool{}
	for _, p := range slices.Concat(m.Run.Probes, m.Run.ClientProbes) {
		if p.V.Entrance == entrance && p.V.Server != "" && p.V.End < before && p.V.End >= before-record.Nanos(usedBefore) {
			used[p.V.Server] = true
		}
	}
	return used
}

// unused returns a finding if no client of an entrance used an API server that the fault hits: such
// clients have nothing to recover from. It is nil if a client did, or if no response names its
// server.
func unused(m *facts.Case, entrance string) *Finding {
	if m.IsNode(entrance) || m.Fault.Injected.Component != "kube-apiserver" {
		return nil
	}
	used, nodes := serversUsed(m, entrance, m.Fault.Injected.Called), m.Fault.Nodes()
	switch {
	case len(used) == 0 || slices.ContainsFunc(nodes, func(node string) bool { return used[node] }):
		return nil
	case onStandby(m):
		return notApplicable("The API server on %s was on standby: the balancer sends clients to one API server at a time.", text.And(nodes)).problem()
	default:
		return Inconclusive("no client of %s used the API server on %s in the %s before the %s", entrance, text.And(nodes), usedBefore, m.Fault.What()).problem()
	}
}

// onStandby reports whether the balancer reported that another node has the virtual IP, for every
// node that the fault hits.
func onStandby(m *facts.Case) bool {
	nodes := m.Fault.Nodes()
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(node string) bool { return !m.StandsBy(node, 0, m.Fault.Injected.Called) })
}

// unusedByChanges returns a finding if API servers were restarted or removed by changes, and no
// client of an entrance had used any of them: such clients could not notice the changes. It is nil if
// a client did, if the record does not show which API servers were used, or if a node had just joined.
func unusedByChanges(m *facts.Case, entrance string, changes []record.NodeChange) *Finding {
	if m.IsNode(entrance) {
		return nil
	}
	var nodes []string
	for _, c := range changes {
		if !stopsAPIServer(c) {
			continue
		}
		used := serversUsed(m, entrance, c.Called)
		young := func(n facts.NodeLife) bool {
			return n.Name == c.Node.Name && n.From > c.Called-record.Nanos(usedBefore) && n.From < c.Called
		}
		if len(used) == 0 || used[c.Node.Name] || slices.ContainsFunc(facts.NodeLives(m.Run), young) {
			return nil
		}
		nodes = append(nodes, c.Node.Name)
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	return Inconclusive("no client of %s used an API server in the %s before its node was changed (%s)", entrance, usedBefore, text.And(slices.Compact(nodes))).problem()
}

func stopsAPIServer(c record.NodeChange) bool {
	switch {
	case !slices.Contains(c.Node.Components, "kube-apiserver") || c.Action == "upgrade-etcd":
		return false
	case c.Action == "reconfigure" && len(c.Restarts) > 0:
		return slices.Contains(c.Restarts, "kube-apiserver")
	}
	return c.Phase != record.NodeAdded && c.Phase != record.NodeUndone
}
