package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var oneLeaderPerTerm = Definition{Doc{
	Name:      "one-leader-per-term",
	Needs:     []record.Access{record.EtcdMembers},
	Invariant: "HA-INV-009",
	Lasting:   true,
	Guarantee: "etcd never has two leaders in one term.",
	Source:    "Raft, election safety; the checks of every run of the catalogue",
}, JudgeOneLeaderPerTerm}

// reign is a term in which one member named itself the leader.
type reign struct {
	node, leader string
	term         uint64
	from, to     record.Nanos
	index        uint64 // up to which it had committed in the first sample
	own          uint64 // in the first sample with more; 0 until then
}

func (r reign) span() verdict.Span {
	return verdict.Span{Lane: r.node, Label: fmt.Sprintf("leads in term %d", r.term), From: r.from, To: r.to}
}

// JudgeOneLeaderPerTerm trusts a member's own report once it has committed an entry as the
// leader, which only an entry of its own term can do, and has applied it. etcd's status has the
// term of the last entry that the member applied and the leader that it knows of now, which need
// not belong together: a follower that comes back learns of the new leader long before it applies
// the first entry of the new term, and so does a new leader itself before it has committed and,
// on a slow disk, applied the first one of its own.
//
// Terms start again in a cluster that was restored from a snapshot, which is a new cluster.
//
// A member that was cut off and takes itself for the leader of an old term breaks
// nothing: it is in that one alone.
func JudgeOneLeaderPerTerm(m *facts.Case) Finding {
	type term struct {
		cluster string // only where one was restored
		number  uint64
	}
	now := map[string]reign{} // by node, while it names itself
	terms := map[term]reign{} // the first proven one
	restored := false
	for _, inj := range m.Faults {
		restored = restored || inj.Injected != nil && inj.Injected.Has(record.EffectRestored)
	}
	answers := 0
	if len(m.Run.Etcd) == 0 {
		return notApplicable("The record has no status of an etcd member.")
	}
	for at, s := range record.Each(m.Run.Etcd) {
		if !s.OK || s.Leader == "" || s.Leader != s.Member || s.Term == 0 {
			delete(now, s.Node)
			continue
		}
		answers++
		r, ok := now[s.Node]
		if !ok || r.term != s.Term {
			r = reign{node: s.Node, leader: s.Leader, term: s.Term, from: at, index: s.RaftIndex}
		}
		r.to = at
		if r.own == 0 && s.RaftIndex > r.index {
			r.own = s.RaftIndex
		}
		now[s.Node] = r
		if r.own == 0 || s.Applied > 0 && s.Applied < r.own {
			continue
		}
		in := term{number: s.Term}
		if restored {
			in.cluster = s.Cluster
		}
		first, ok := terms[in]
		if !ok {
			first = r
		}
		if first.leader != r.leader {
			return Failed("etcd must have one leader per term: in term %d the member on %s led (%s to %s), and so did the member on %s (%s to %s).",
				s.Term, first.node, text.When(first.from), text.When(first.to), r.node, text.When(r.from), text.When(r.to)).
				exhibits(facts.Exhibit(fmt.Sprintf("Two leaders of term %d", s.Term), first.span(), facts.Blamed(r.span())))
		}
		first.to = at
		terms[in] = first
	}
	if len(terms) == 0 {
		return Inconclusive("no etcd member that reported itself as the leader was observed to commit anything (%d answers)", answers)
	}
	when := "throughout, in a single term"
	if len(terms) > 1 {
		when = fmt.Sprintf("in each of %d terms", len(terms))
	}
	return Passed("One etcd member led %s (%s of leaders).", when, text.Plural(answers, "answer")).
		number(len(terms), "term")
}
