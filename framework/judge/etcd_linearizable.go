package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// etcdLinearizable judges what clients did with etcd's members themselves. A revision is
// a place in the order of all writes, so more can be held against it than against a
// register: a transaction is at one revision on all of its keys, and an answer shows the
// state of the revision in its header.
func etcdLinearizable() definition {
	return definition{Doc{
		Name:      "etcd-linearizable",
		Invariant: "HA-INV-003",
		Lasting:   true,
		Guarantee: "etcd's own operations are strictly serializable: a linearizable read through any member returns the newest acknowledged write, a transaction takes effect on all of its keys or on none and only where its condition holds, " +
			"no two writes have one revision, and an answer is the state of the revision in its header.",
		Source: "etcd API guarantees (strict serializability; durability; revisions)",
	}, judgeEtcdLinearizable}
}

func judgeEtcdLinearizable(m *matter) finding {
	h, problem := newKeyHistories(m, apiEtcd)
	if problem != nil {
		return *problem
	}
	switch {
	case len(h.keys) == 0:
		return notApplicable("the record has no writes and linearizable reads of etcd")
	case h.writes == 0 || h.reads == 0:
		return inconclusive("there was too little traffic with etcd: %d writes and %d linearizable reads succeeded", h.writes, h.reads)
	}
	h.wholeTransactions()
	if b := sharedRevision(m.run); b != nil {
		return conclude("Each write of etcd must have a revision of its own", "", h.size(), []breach{*b})
	}
	if f := h.judge(linearizeLimit, searchRoom); f.verdict != Pass {
		return f
	}
	checked, breaches := m.snapshots()
	if len(breaches) > 0 {
		return conclude("An answer of etcd must be the state of its revision", "", h.size(), breaches)
	}
	held := ""
	if checked > 0 {
		held = fmt.Sprintf(", and each of %s is the state of the revision in its header", plural(checked, "answer"))
	}
	return m.met(passed("The history of %s on %d keys of etcd is linearizable%s.", h.traffic("linearizable"), len(h.keys), held), h.after).
		counted("%s", h.size())
}

// wholeTransactions uses that a transaction took effect on all of its keys or on none:
// where a client was shown the value that one wrote to one key, it had written the others
// by then, at the same revision, whatever its own client learnt of it.
func (h *keyHistories) wholeTransactions() {
	type effect struct {
		by       record.Nanos
		revision string
	}
	effects := map[string]effect{}
	for _, ops := range h.ops {
		for _, op := range ops {
			shown, ok := h.seen.of(op)
			if op.Transaction == "" || op.Outcome != record.Unknown || !ok {
				continue
			}
			e, known := effects[op.Transaction]
			if !known || shown.at < e.by {
				e.by = shown.at
			}
			e.revision = cmp.Or(e.revision, shown.revision)
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

// sharedRevision finds two acknowledged writes, not of one transaction, that got the
// same revision.
func sharedRevision(run *record.Run) *breach {
	made := map[string]*record.Op{}
	for i := range run.Ops {
		op := &run.Ops[i].V
		// Revoking a lease is answered with a revision also if there was nothing to delete.
		if op.API != apiEtcd || !isWrite(op.Type) || op.Type == record.OpDelete || op.Outcome != record.OK || op.Revision == "" {
			continue
		}
		other := made[op.Revision]
		if other == nil {
			made[op.Revision] = op
			continue
		}
		if op.Transaction == "" || op.Transaction != other.Transaction {
			return &breach{at: op.Return, what: fmt.Sprintf("%s's %s of %s through %s and %s's %s of %s through %s were both acknowledged at revision %s",
				other.Client, other.Type, other.Key, other.Entrance, op.Client, op.Type, op.Key, op.Entrance, op.Revision),
				evidence: []string{describe(*other), describe(*op)}, spans: []Span{opSpan(*other), opSpan(*op).blamed()}}
		}
	}
	return nil
}

// snapshots holds each answer of etcd that has a header against the state of the revision
// in it, as far as that is known: reads, and transactions whose condition was not met. It
// returns how many it could hold against it.
func (m *matter) snapshots() (checked int, breaches []breach) {
	c := m.collections()
	unmet := map[string][]*record.Op{} // by transaction
	for i := range m.run.Ops {
		op := &m.run.Ops[i].V
		t := c.timelines[collectionOf{op.API, op.Collection}]
		if op.API != apiEtcd || op.Collection == "" || t == nil || number(op.Header) == 0 {
			continue
		}
		switch {
		case op.Outcome == record.Refused && op.Transaction != "":
			unmet[op.Transaction] = append(unmet[op.Transaction], op)
			continue
		case op.Outcome == record.Refused:
			c, known := t.stands(op)
			if !known {
				continue
			}
			if c.meets(op) {
				breaches = append(breaches, answered(op, c, "was refused at revision "+op.Header+", although its condition held"))
			}
		case op.Type == record.OpGet && op.Outcome == record.OK:
			c, known := t.stands(op)
			if !known {
				continue
			}
			if !c.shownBy(op) {
				breaches = append(breaches, answered(op, c, fmt.Sprintf("returned %s with a header of revision %s, of which it is not the state", quoted(op.Value, op.Found), op.Header)))
			}
		default:
			continue
		}
		checked++
	}
	for _, ops := range unmet {
		met := 0
		var last *keyChange
		for _, op := range ops {
			t := c.timelines[collectionOf{op.API, op.Collection}]
			if c, known := t.stands(op); known && c.meets(op) {
				met, last = met+1, c
			}
		}
		checked++
		if met == len(ops) {
			breaches = append(breaches, answered(ops[0], last, fmt.Sprintf("and the rest of its transaction was refused at revision %s, although its condition held on each of %d keys", ops[0].Header, met)))
		}
	}
	slices.SortStableFunc(breaches, func(a, b breach) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what)) })
	return checked, breaches
}

// stands returns the change that an operation's key stood at in the revision of its header.
func (t *timeline) stands(op *record.Op) (c *keyChange, known bool) {
	l := t.lines[op.Key]
	if l == nil {
		return nil, false
	}
	return l.at(number(op.Header))
}

// meets tells whether a write that compares can take effect on a key that stands at c.
func (c *keyChange) meets(op *record.Op) bool {
	switch op.Type {
	case record.OpCreate:
		return c == nil
	case record.OpDelete:
		return c != nil
	}
	return c != nil && c.revision == number(op.Expect)
}

// shownBy tells whether a read returned a key that stands at c.
func (c *keyChange) shownBy(op *record.Op) bool {
	if c == nil || !op.Found {
		return c == nil && !op.Found
	}
	return c.revision == number(op.Revision) && c.value == op.Value
}

func answered(op *record.Op, c *keyChange, what string) breach {
	b := breach{at: op.Return, what: fmt.Sprintf("%s's %s of %s through %s, called %s, %s", op.Client, op.Type, op.Key, op.Entrance, at(op.Call), what),
		evidence: []string{describe(*op)}, spans: []Span{opSpan(*op).blamed()}}
	if c != nil && c.by != nil {
		b.evidence = append(b.evidence, describe(*c.by.op))
		b.spans = append(b.spans, spanOfWrite(c.by)...)
	}
	return b
}
