package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func writeGap() definition {
	return definition{Doc{
		Name:       "write-gap",
		Guarantee:  "Writes through the API servers of surviving nodes resume within the bound, and a new etcd leader is there where the old one was hit.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"newLeader": "\"true\": etcd must have another leader in a higher term afterwards (default false)",
			"balancer":  "\"true\": the load balancer counts as a surviving entrance (default false)",
		},
	}, judgeWriteGap}
}

func judgeWriteGap(m *matter) finding {
	from, to := m.fault.effect(), m.fault.healed.Called
	entrances := m.apiServers(m.hitBetween(from, to)...)
	if m.param("balancer", "false") == "true" && slices.Contains(m.run.Meta.Entrances, "balancer") {
		entrances = append(entrances, "balancer")
	}
	if len(entrances) == 0 {
		return inconclusive("the record names no API server on a surviving node")
	}
	worst, problem := judgeGaps(m, entrances, from, to)
	if problem != nil {
		return *problem
	}
	leader := ""
	if m.param("newLeader", "false") == "true" {
		l, problem := newLeader(m, from, to)
		if problem != nil {
			return problem.took(worst.length())
		}
		leader = "; " + l + " leads etcd"
	}
	return passed("After the %s, the longest time without an acknowledged write through %s was %s (through %s), within %s%s.",
		m.fault.what(), and(entrances), short(worst.length()), worst.entrance, m.bound, leader).took(worst.length())
}

// newLeader returns the node of the leader that etcd has after the fault, or
// why it has none.
func newLeader(m *matter, from, to record.Nanos) (node string, problem *finding) {
	nodes := map[string]string{} // by member ID
	var old record.EtcdStatus
	for _, e := range m.run.Etcd {
		if e.V.Member != "" {
			nodes[e.V.Member] = e.V.Node
		}
		if e.At <= m.fault.injected.Called && e.V.OK && e.V.Leader != "" && e.V.Term >= old.Term {
			old = e.V
		}
	}
	if old.Leader == "" {
		f := inconclusive("the record does not show which etcd member led before the fault")
		return "", &f
	}
	if on := nodes[old.Leader]; !slices.Contains(m.fault.nodes(), on) {
		f := inconclusive("the fault (%s) did not hit the etcd leader, which was member %s on %s", m.fault.what(), old.Leader, on)
		return "", &f
	}
	last := from // answer
	for _, e := range m.run.Etcd {
		if e.At < from || e.At > to || slices.Contains(m.fault.nodes(), e.V.Node) || !e.V.OK {
			continue
		}
		last = e.At
		if e.V.Leader != "" && e.V.Leader != old.Leader && e.V.Term > old.Term {
			if n := nodes[e.V.Leader]; n != "" {
				return n, nil
			}
			return "member " + e.V.Leader, nil
		}
	}
	if span(from, last) <= m.bound.Limit {
		f := inconclusive("no surviving etcd member named a new leader, but none gave its status later than %s after the %s", short(m.bound.Limit), m.fault.what())
		return "", &f
	}
	f := failed("etcd must have a new leader after the %s: until %s after it, no surviving member named one in a later term than %d, in which member %s on %s had led.",
		m.fault.what(), short(span(from, last)), old.Term, old.Leader, nodes[old.Leader]).rests(from, last)
	return "", &f
}
