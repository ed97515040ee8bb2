package judge

import (
	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughAnswers is how many answers of one member tell that its leader stayed.
const enoughAnswers = 3

func noElection() definition {
	return definition{Doc{
		Name:       "no-election",
		Guarantee:  "etcd keeps its leader and its term from before the faults until they are healed.",
		Source:     "etcd, tuning (heartbeat interval and election timeout); Automated HA master deployment (latency between zones)",
		NeedsFault: true,
		Params: map[string]string{
			"faults": "IDs of all injections that must not cause an election, separated by commas (default: the check's fault)",
		},
	}, judgeNoElection}
}

func judgeNoElection(m *matter) finding {
	from, to := m.fault.injected.Called, m.fault.healed.Called
	for _, id := range splitList(m.check.Params["faults"]) {
		from, to = min(from, m.faults[id].injected.Called), max(to, m.faults[id].healed.Called)
	}
	var old record.EtcdStatus
	answers := map[string]int{} // while the faults lasted, by node
	for _, e := range m.run.Etcd {
		s := e.V
		switch {
		case !s.OK || s.Leader == "" || s.Term == 0 || e.At > to:
		case e.At <= from:
			if s.Term >= old.Term {
				old = s
			}
		case old.Leader == "":
			return inconclusive("the record does not show which etcd member led before the %s", m.fault.what())
		case s.Term < old.Term: // it has yet to apply what was elected before; etcd tells the term of what is applied
		case s.Leader != old.Leader || s.Term > old.Term:
			return failed("etcd must hold no election during the %s: member %s led in term %d before, and %s the member on %s named %s in term %d.",
				m.fault.what(), old.Leader, old.Term, at(e.At), s.Node, s.Leader, s.Term).rests(from, e.At)
		default:
			answers[s.Node]++
		}
	}
	members := m.nodesWith("etcd")
	for _, member := range members {
		if n := answers[member.Name]; n < enoughAnswers {
			return inconclusive("the etcd member on %s gave its status %d times during the %s, fewer than the %d that it takes", member.Name, n, m.fault.what(), enoughAnswers)
		}
	}
	if len(members) == 0 {
		return inconclusive("the record names no etcd member")
	}
	return passed("During the %s, member %s went on leading etcd in term %d.", m.fault.what(), old.Leader, old.Term)
}
