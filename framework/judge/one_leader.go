package judge

import (
	"cmp"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func oneLeaderPerTerm() definition {
	return definition{Doc{
		Name:      "one-leader-per-term",
		Guarantee: "etcd never has two leaders in one term.",
		Source:    "Raft, election safety; the checks of every run of the catalogue",
	}, judgeOneLeaderPerTerm}
}

// reign is a leader in a term as one member kept reporting it.
type reign struct {
	node, leader string
	from, to     record.Nanos
}

// judgeOneLeaderPerTerm counts only what a member reported for longer than an
// election takes. etcd's status gives the term of the last entry that the
// member applied beside the leader that it follows now, so that just after an
// election a new leader is reported with the old term.
func judgeOneLeaderPerTerm(m *matter) finding {
	settings := m.run.Meta.Settings
	confirm := 2*cmp.Or(settings["E"], time.Second) + cmp.Or(settings["M"], 2*time.Second)

	type present struct {
		term uint64
		reign
	}
	now := map[string]present{} // by node
	terms := map[uint64]reign{} // the first confirmed one
	answers := 0
	for _, e := range m.run.Etcd {
		s := e.V
		if !s.OK || s.Leader == "" || s.Term == 0 {
			delete(now, s.Node)
			continue
		}
		answers++
		p, ok := now[s.Node]
		if !ok || p.term != s.Term || p.leader != s.Leader {
			p = present{s.Term, reign{s.Node, s.Leader, e.At, e.At}}
		}
		p.to = e.At
		now[s.Node] = p
		if time.Duration(p.to-p.from) <= confirm {
			continue
		}
		first, ok := terms[s.Term]
		if !ok {
			terms[s.Term] = p.reign
			continue
		}
		if first.leader != p.leader {
			return failed("etcd must have one leader per term: in term %d the member on %s followed %s (%s to %s), and the member on %s followed %s (%s to %s).",
				s.Term, first.node, first.leader, when(first.from), when(first.to), p.node, p.leader, when(p.from), when(p.to)).rests(p.from, p.to)
		}
	}
	if len(terms) == 0 {
		return inconclusive("no etcd member named one leader for longer than %s (%d answers)", short(confirm), answers)
	}
	return passed("In each of %d terms that lasted longer than %s, all etcd members named one leader (%d answers).", len(terms), short(confirm), answers).
		counted("%d terms", len(terms))
}
