package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughAnswers is how many responses of one member show that its leader stayed.
const enoughAnswers = 3

var noElection = Definition{Doc{
	Name:       "no-election",
	Guarantee:  "etcd keeps its leader and its term from before the faults until they are healed.",
	Source:     "etcd, tuning (heartbeat interval and election timeout); Automated HA master deployment (latency between zones)",
	NeedsFault: true,
	Params: map[string]string{
		"faults": "IDs of all injections that must not cause an election, separated by commas (default: the check's fault)",
	},
}, hitsMembers(judgeNoElection)}

func judgeNoElection(m *facts.Case) Finding {
	from, to := m.Fault.Injected.Called, m.Fault.Healed.Called
	for _, inj := range m.Together() {
		from, to = min(from, inj.Injected.Called), max(to, inj.Healed.Called)
	}
	var old record.EtcdStatus
	answers := map[string]int{} // while the faults lasted, by node
	for at, s := range record.Each(m.Run.Etcd) {
		switch {
		case !s.OK || s.Leader == "" || s.Term == 0 || at > to:
		case at <= from:
			if s.Term >= old.Term {
				old = s
			}
		case old.Leader == "":
			return Inconclusive("the record does not show which etcd member led before the %s", m.Fault.What())
		case s.Term < old.Term: // it has not applied the earlier election yet; etcd reports the term of what is applied
		case s.Leader != old.Leader || s.Term > old.Term:
			return Failed("etcd must hold no election during the %s: member %s led in term %d before, and %s the member on %s named %s in term %d.",
				m.Fault.What(), old.Leader, old.Term, text.At(at), s.Node, s.Leader, s.Term).Rests(from, at)
		default:
			answers[s.Node]++
		}
	}
	members := m.NodesWith("etcd")
	for _, member := range members {
		if n := answers[member.Name]; n < enoughAnswers {
			return Inconclusive("the etcd member on %s gave its status %d times during the %s, fewer than the %d required", member.Name, n, m.Fault.What(), enoughAnswers)
		}
	}
	if len(members) == 0 {
		return Inconclusive("the record names no etcd member")
	}
	return Passed("During the %s, member %s remained etcd's leader in term %d.", m.Fault.What(), old.Leader, old.Term)
}
