package judge

import (
	"github.com/holdfast-ha/holdfast/framework/record"
)

func oneLeaderPerTerm() definition {
	return definition{Doc{
		Name:      "one-leader-per-term",
		Guarantee: "etcd never has two leaders in one term.",
		Source:    "Raft, election safety; the checks of every run of the catalogue",
	}, judgeOneLeaderPerTerm}
}

func judgeOneLeaderPerTerm(m *matter) finding {
	leaders := map[uint64]record.Timed[record.EtcdStatus]{}
	answers := 0
	for _, e := range m.run.Etcd {
		s := e.V
		if !s.OK || s.Leader == "" || s.Term == 0 {
			continue
		}
		answers++
		first, ok := leaders[s.Term]
		if !ok {
			leaders[s.Term] = e
			continue
		}
		if first.V.Leader != s.Leader {
			return failed("etcd must have one leader per term: in term %d the member on %s followed %s (%s), and the member on %s followed %s (%s).",
				s.Term, first.V.Node, first.V.Leader, at(first.At), s.Node, s.Leader, at(e.At))
		}
	}
	if answers == 0 {
		return inconclusive("no etcd member named its leader")
	}
	return passed("In each of %d terms, every etcd member that was asked named the same leader (%d answers).", len(leaders), answers).
		counted("%d terms", len(leaders))
}
