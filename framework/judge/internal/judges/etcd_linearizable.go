package judges

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// etcdLinearizable judges operations on etcd's members themselves. A revision is a place in the
// order of all writes, so more can be checked than for a register: a transaction is at one
// revision on all of its keys, and a response shows the state at the revision in its header.
var etcdLinearizable = Definition{Doc{
	Name:      "etcd-linearizable",
	Needs:     []record.Access{record.EtcdMembers},
	Invariant: "HA-INV-003",
	Lasting:   true,
	Guarantee: "etcd's own operations are strictly serializable: a linearizable read through any member returns the newest acknowledged write, a transaction takes effect on all of its keys or on none and only where its condition holds, " +
		"no two writes have one revision, and an answer is the state of the revision in its header.",
	Source: "etcd API guarantees (strict serializability; durability; revisions)",
}, judgeEtcdLinearizable}

func judgeEtcdLinearizable(m *facts.Case) Finding {
	h, problem := newKeyHistories(m, facts.APIEtcd)
	if problem != nil {
		return *problem
	}
	switch {
	case len(h.keys) == 0:
		return notApplicable("The record has no writes and linearizable reads of etcd.")
	case h.writes == 0 || h.reads == 0:
		return Inconclusive("too little traffic with etcd: %d writes and %d linearizable reads succeeded", h.writes, h.reads)
	}
	h.wholeTransactions()
	if b := sharedRevision(m.Run); b != nil {
		return conclude("Each write of etcd must have a revision of its own", "", h.size(), []facts.Breach{*b})
	}
	checked, breaches := snapshots(m)
	if len(breaches) > 0 {
		return conclude("An answer of etcd must be the state of its revision", "", h.size(), breaches)
	}
	if f := h.judge(LinearizeLimit, SearchRoom); f.Verdict != verdict.Pass {
		return f
	}
	held := ""
	if checked > 0 {
		held = fmt.Sprintf(", and each of %s is the state of the revision in its header", text.Plural(checked, "answer"))
	}
	return met(m, Passed("The history of %s on %d keys of etcd is linearizable%s.", h.traffic("linearizable"), len(h.keys), held), h.met, enoughExposed).
		counted("%s", h.size())
}

// wholeTransactions uses that a transaction took effect on all of its keys or on none: if a
// client saw the value that it wrote to one key, it had written the others at the same revision
// by that time, whatever its own client learned.
func (h *keyHistories) wholeTransactions() {
	type effect struct {
		by       record.Nanos
		revision string
	}
	effects := map[string]effect{}
	for _, ops := range h.ops {
		for _, op := range ops {
			shown, ok := h.seen.Of(op)
			if op.Transaction == "" || op.Outcome != record.Unknown || !ok {
				continue
			}
			e, known := effects[op.Transaction]
			if !known || shown.At < e.by {
				e.by = shown.At
			}
			e.revision = cmp.Or(e.revision, shown.Revision)
			effects[op.Transaction] = e
		}
	}
	for _, ops := range h.ops {
		for i := range ops {
			op := &ops[i]
			if e, ok := effects[op.Transaction]; ok && op.Outcome == record.Unknown {
				op.Outcome, op.Return, op.Revision = record.OK, max(op.Call, e.by), e.revision
			}
		}
	}
}

// sharedRevision finds two acknowledged writes, not of one transaction, with the same revision.
func sharedRevision(run *record.Run) *facts.Breach {
	made := map[string]*record.Op{}
	for i := range run.Ops {
		op := &run.Ops[i].V
		if op.API != facts.APIEtcd || !facts.IsWrite(op.Type) || op.Outcome != record.OK || op.Revision == "" {
			continue
		}
		// Revoking a lease, whose keys belong to no collection, returns a revision even if there
		// was nothing to delete.
		if op.Type == record.OpDelete && op.Collection == "" {
			continue
		}
		other := made[op.Revision]
		if other == nil {
			made[op.Revision] = op
			continue
		}
		if op.Transaction == "" || op.Transaction != other.Transaction {
			return &facts.Breach{At: op.Return, What: fmt.Sprintf("%s's %s of %s through %s and %s's %s of %s through %s were both acknowledged at revision %s",
				other.Client, other.Type, other.Key, other.Entrance, op.Client, op.Type, op.Key, op.Entrance, op.Revision),
				Evidence: []string{text.Describe(*other), text.Describe(*op)}, Spans: []verdict.Span{facts.OpSpan(*other), facts.Blamed(facts.OpSpan(*op))}}
		}
	}
	return nil
}

// snapshots checks each etcd response that has a header against the state at that revision, as
// far as it is known: reads, and transactions whose condition was not met. It returns how many it
// could check.
func snapshots(m *facts.Case) (checked int, breaches []facts.Breach) {
	c := m.Collections()
	unmet := map[string][]*record.Op{} // by transaction
	for i := range m.Run.Ops {
		op := &m.Run.Ops[i].V
		t := c.Timelines[facts.CollectionOf{API: op.API, Name: op.Collection}]
		if op.API != facts.APIEtcd || op.Collection == "" || t == nil || record.Number(op.Header) == 0 {
			continue
		}
		state, known := stands(t, op)
		refused, read := op.Outcome == record.Refused, op.Type == record.OpGet && op.Outcome == record.OK
		switch {
		case refused && op.Transaction != "":
			unmet[op.Transaction] = append(unmet[op.Transaction], op)
			continue
		case !known || !refused && !read:
			continue
		case refused && meets(state, op):
			breaches = append(breaches, answered(op, state, "was refused at revision "+op.Header+", although its condition held"))
		case read && !shownBy(state, op):
			breaches = append(breaches, answered(op, state, fmt.Sprintf("returned %s with a header of revision %s, of which it is not the state", text.Quoted(op.Value, op.Found), op.Header)))
		}
		checked++
	}
	for _, ops := range unmet {
		met := 0
		var last *facts.KeyChange
		for _, op := range ops {
			t := c.Timelines[facts.CollectionOf{API: op.API, Name: op.Collection}]
			if c, known := stands(t, op); known && meets(c, op) {
				met, last = met+1, c
			}
		}
		checked++
		if met == len(ops) {
			breaches = append(breaches, answered(ops[0], last, fmt.Sprintf("and the rest of its transaction was refused at revision %s, although its condition held on each of %d keys", ops[0].Header, met)))
		}
	}
	slices.SortStableFunc(breaches, func(a, b facts.Breach) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.What, b.What)) })
	return checked, breaches
}

// stands returns the change that made the state of an operation's key at the revision of its
// header.
func stands(t *facts.Timeline, op *record.Op) (c *facts.KeyChange, known bool) {
	l := t.Lines[op.Key]
	if l == nil {
		return nil, false
	}
	return l.At(record.Number(op.Header))
}

// meets reports whether a write with a comparison can take effect on a key in the state that c
// made.
func meets(c *facts.KeyChange, op *record.Op) bool {
	switch op.Type {
	case record.OpCreate:
		return c == nil
	case record.OpDelete:
		return c != nil
	}
	return c != nil && c.Revision == record.Number(op.Expect)
}

// shownBy reports whether a read returned a key in the state that c made.
func shownBy(c *facts.KeyChange, op *record.Op) bool {
	if c == nil || !op.Found {
		return c == nil && !op.Found
	}
	return c.Revision == record.Number(op.Revision) && c.Value == op.Value
}

func answered(op *record.Op, c *facts.KeyChange, what string) facts.Breach {
	b := facts.Breach{At: op.Return, What: fmt.Sprintf("%s's %s of %s through %s, called %s, %s", op.Client, op.Type, op.Key, op.Entrance, text.At(op.Call), what),
		Evidence: []string{text.Describe(*op)}, Spans: []verdict.Span{facts.Blamed(facts.OpSpan(*op))}}
	if c != nil && c.By != nil {
		b.Evidence = append(b.Evidence, text.Describe(*c.By.Op))
		b.Spans = append(b.Spans, facts.SpanOfWrite(c.By)...)
	}
	return b
}
