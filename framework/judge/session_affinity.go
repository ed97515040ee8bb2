package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func sessionAffinity() definition {
	return definition{Doc{
		Name:      "session-affinity",
		Guarantee: "A client of the balancer in front of the etcd members stays on one member, from connection to connection, until that member dies; then it gets to another one.",
		Source:    "Control plane resilience overview",
		Params:    map[string]string{"faults": "the injections that may end a member"},
	}, judgeSessionAffinity}
}

func judgeSessionAffinity(m *matter) finding {
	nodes := map[string]string{} // by member ID
	for _, e := range m.run.Etcd {
		if e.V.Member != "" {
			nodes[e.V.Member] = e.V.Node
		}
	}
	// Of each client in the order of its requests; they are recorded at their ends.
	sessions := slices.Clone(m.run.Sessions)
	slices.SortStableFunc(sessions, func(a, b record.Timed[record.Session]) int { return int(a.V.Start - b.V.Start) })
	last := map[string]record.Session{}
	answered, moves := 0, 0
	var slowest time.Duration
	for _, timed := range sessions {
		s := timed.V
		if s.Member == "" {
			continue
		}
		answered++
		old, known := last[s.Client]
		last[s.Client] = s
		if !known || old.Member == s.Member {
			continue
		}
		died := m.diedBetween(nodes[old.Member], old.Start, s.End)
		if nodes[old.Member] == "" {
			return inconclusive("the record does not tell on which node member %s is, which %s was on until %s", old.Member, s.Client, when(old.End))
		}
		if died == nil {
			return failed("A client must stay on its etcd member until that dies: %s was on the member on %s at %s and got to that on %s at %s, and nothing had ended the first one.",
				s.Client, nodes[old.Member], when(old.Start), cmp.Or(nodes[s.Member], "another node"), when(s.Start)).rests(old.Start, s.End)
		}
		moves++
		slowest = max(slowest, time.Duration(s.End-died.effect()))
	}
	switch {
	case answered == 0:
		return inconclusive("no request through a balancer in front of the etcd members was answered")
	case moves == 0:
		return inconclusive("no member died that a client was on, in %d requests", answered)
	}
	return passed("In %d requests through the balancer, each client stayed on its etcd member until that died (%d times), and got to another one within %s.",
		answered, moves, short(slowest)).took(slowest)
}

// diedBetween returns the injection that ended etcd on a node and was in force at any
// time between from and to, nil if there is none.
func (m *matter) diedBetween(node string, from, to record.Nanos) *injection {
	for _, inj := range m.faults {
		f := inj.injected
		if f == nil || f.Called > to || inj.healed != nil && inj.healEffect() < from {
			continue
		}
		if (f.Node == node || slices.Contains(f.Nodes, node)) && (f.Component == "" || f.Component == "etcd") {
			return inj
		}
	}
	return nil
}
