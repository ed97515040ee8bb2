package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var writeGap = Definition{Doc{
	Name:       "write-gap",
	Guarantee:  "Writes through the API servers of surviving nodes resume within the bound, and 2E more for each election that ends in a split vote (two at most), and etcd has a new leader if the old one was hit.",
	Source:     "Automated HA master deployment; raft, section 5.2",
	NeedsFault: true, NeedsBound: true, Coarser: true,
	Params: map[string]string{
		"newLeader": "\"true\": etcd must have another leader in a higher term afterwards (default false)",
		"balancer":  "\"true\": the load balancer counts as a surviving entrance (default false)",
	},
	Values: map[string][]string{"newLeader": flag, "balancer": flag},
}, judgeWriteGap}

func judgeWriteGap(m *facts.Case) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	m = withSplitVotes(m, from, to)
	return bounded(*m.Bound)(writesResume(m, from, to))
}

func writesResume(m *facts.Case, from, to record.Nanos) Finding {
	entrances := m.APIServers(m.HitBetween(from, to)...)
	if m.Param("balancer", "false") == "true" && slices.Contains(m.Run.Meta.Entrances, "balancer") {
		entrances = append(entrances, "balancer")
	}
	if len(entrances) == 0 {
		return Inconclusive("the record names no API server on a surviving node")
	}
	worst, problem := judgeGaps(m, entrances, from, to)
	if problem != nil {
		return *problem
	}
	leader := ""
	if m.Param("newLeader", "false") == "true" {
		l, problem := newLeader(m, from, to)
		if problem != nil {
			return problem.Took(worst.Length())
		}
		leader = "; " + l + " leads etcd"
	}
	return Passed("After the %s, the longest time without an acknowledged write through %s was %s (through %s), within %s%s.",
		m.Fault.What(), text.And(entrances), text.Short(worst.Length()), worst.Entrance, m.Bound, leader).Took(worst.Length())
}

// newLeader returns the node of the leader that etcd has after the fault, or
// why it has none.
func newLeader(m *facts.Case, from, to record.Nanos) (node string, problem *Finding) {
	nodes := map[string]string{} // by member ID
	var old record.EtcdStatus
	for _, e := range m.Run.Etcd {
		if e.V.Member != "" {
			nodes[e.V.Member] = e.V.Node
		}
		if e.At <= m.Fault.Injected.Called && e.V.OK && e.V.Leader != "" && e.V.Term >= old.Term {
			old = e.V
		}
	}
	if old.Leader == "" {
		return "", Inconclusive("the record does not show which etcd member led before the fault").problem()
	}
	if on := nodes[old.Leader]; !slices.Contains(m.Fault.Nodes(), on) {
		return "", Inconclusive("the fault (%s) did not hit the etcd leader, which was member %s on %s", m.Fault.What(), old.Leader, on).problem()
	}
	last := from // answer
	for _, e := range m.Run.Etcd {
		if e.At < from || e.At > to || slices.Contains(m.Fault.Nodes(), e.V.Node) || !e.V.OK {
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
	if text.Span(from, last) <= m.Bound.Limit {
		return "", Inconclusive("no surviving etcd member named a new leader, but none gave its status later than %s after the %s", text.Short(m.Bound.Limit), m.Fault.What()).problem()
	}
	return "", Failed("etcd must have a new leader after the %s: until %s after it, no surviving member named one in a later term than %d, in which member %s on %s had led.",
		m.Fault.What(), text.Short(text.Span(from, last)), old.Term, old.Leader, nodes[old.Leader]).Rests(from, last).problem()
}
