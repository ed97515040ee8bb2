package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// usedBefore is how long before a fault a client may have used the API server that it hits.
const usedBefore = 10 * time.Second

// unhit is the finding for clients of an entrance none of which used an API server that the fault
// hits, as far as the responses name their servers: those clients had nothing to recover from. It is
// nil if some did, or if that is not known.
func unhit(m *facts.Matter, entrance string) *Finding {
	if m.IsNode(entrance) || m.Fault.Injected.Component != "kube-apiserver" {
		return nil
	}
	called := m.Fault.Injected.Called
	named := false
	for _, p := range slices.Concat(m.Run.Probes, m.Run.ClientProbes) {
		if p.V.Entrance != entrance || p.V.Server == "" || p.V.End >= called || p.V.End < called-record.Nanos(usedBefore) {
			continue
		}
		if slices.Contains(m.Fault.Nodes(), p.V.Server) {
			return nil
		}
		named = true
	}
	switch nodes := text.And(m.Fault.Nodes()); {
	case !named:
		return nil
	case onStandby(m):
		return notApplicable("The API server on %s was on standby: the balancer sends clients to one API server at a time.", nodes).problem()
	default:
		return Inconclusive("no client of %s used the API server on %s in the %s before the %s", entrance, nodes, usedBefore, m.Fault.What()).problem()
	}
}

// onStandby reports whether the balancer reported that another node has the virtual IP, for every
// node that the fault hits.
func onStandby(m *facts.Matter) bool {
	return !slices.ContainsFunc(m.Fault.Nodes(), func(node string) bool { return !m.StandsBy(node, 0, m.Fault.Injected.Called) })
}
