package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// showLimit is how many operations an exhibit may have for people to see anything.
const showLimit = 40

// refusals are the reasons for refusals, for people.
var refusals = map[record.Refusal]string{
	record.RefusedAbsent:  "the key was not there",
	record.RefusedPresent: "the key was there",
	record.RefusedVersion: "the key was not in that version",
}

// explain says of an illegal part which of its operations cannot be explained.
func (t *trial) explain() finding {
	var ops []record.Op
	for _, i := range t.core {
		ops = append(ops, t.refutation.act(i).told())
	}
	culprit := t.culprit()
	came := "succeeded"
	if culprit.Outcome == record.Refused {
		came = "was refused, since " + refusals[culprit.Refusal] + ","
	}
	sentence := fmt.Sprintf("The history of reads and writes must be linearizable: that of %s is not. %s's %s, called %s, ",
		t.key, culprit.Client, describeShort(culprit), at(culprit.Call))
	evidence := []string{describe(culprit)}
	switch rival := rivalOf(culprit, ops); {
	case rival == nil:
		sentence += "has no place among " + plural(len(ops), "operation")
	case rival.Outcome == record.Refused:
		sentence += came + " although " + rival.Client + "'s " + describeShort(*rival) + " had been refused " + at(rival.Return) + ", since " + refusals[rival.Refusal]
	case rival.Return < culprit.Call && isWrite(rival.Type):
		sentence += came + " although " + rival.Client + "'s " + describeShort(*rival) + " had been acknowledged " + at(rival.Return)
	case isWrite(rival.Type):
		sentence += came + " next to " + rival.Client + "'s " + describeShort(*rival) + ", acknowledged " + at(rival.Return)
	default:
		sentence += came + " although " + rival.Client + "'s " + describeShort(*rival) + " had ended " + at(rival.Return)
	}
	if rival := rivalOf(culprit, ops); rival != nil {
		evidence = append(evidence, describe(*rival))
	}
	for _, op := range ops {
		if line := describe(op); !slices.Contains(evidence, line) {
			evidence = append(evidence, line)
		}
	}
	f := failed("%s.", sentence).shows(evidence...)
	if len(ops) > showLimit {
		return f
	}
	return f.exhibits(exhibit(fmt.Sprintf("No order explains these %s on %s", plural(len(ops), "operation"), t.key),
		opSpans(ops, func(op record.Op) bool { return op == culprit })...))
}

// culprit is the operation with whose return the part becomes illegal. A part that
// is legal up to some time is so up to any earlier time.
func (t *trial) culprit() record.Op {
	returns := map[int64]bool{}
	for _, i := range t.core {
		if t.refutation.act(i).Outcome == record.OK {
			returns[t.refutation.ops[i].Return] = true
		}
	}
	times := slices.Sorted(maps.Keys(returns))
	i, _ := slices.BinarySearchFunc(times, true, func(at int64, _ bool) int {
		if t.illegalUntil(at) {
			return 0
		}
		return -1
	})
	last := times[min(i, len(times)-1)]
	var culprit record.Op
	for _, i := range t.core {
		op := t.refutation.act(i).Op
		if op.Outcome == record.OK && int64(op.Return) == last && (culprit.Key == "" || !isWrite(op.Type)) {
			culprit = t.refutation.act(i).told()
		}
	}
	return culprit
}

// illegalUntil judges the part as it stood at some time: what had not returned by
// then may or may not have taken effect.
func (t *trial) illegalUntil(at int64) bool {
	r := *t.refutation
	r.ops = slices.Clone(r.ops)
	var shown []int
	for _, i := range t.core {
		o, a := r.ops[i], r.act(i)
		switch {
		case o.Call > at:
			continue
		case o.Return > at && isWrite(a.Type):
			a.Outcome = record.Unknown
			r.ops[i].Input, r.ops[i].Return = a, never
		case o.Return > at:
			continue
		}
		shown = append(shown, i)
	}
	return r.illegal(r.closed(shown))
}

// lost shows where the search found no way on: the operations around the place at
// which the replay ended.
func (t *trial) lost() *Exhibit {
	var ops []record.Op
	for _, i := range newRefutation(t.ops, t.search).around(t.places(), showLimit/2) {
		ops = append(ops, t.ops[i].Input.(action).told())
	}
	ops = ops[:min(len(ops), showLimit)]
	first := t.stuck[0].told()
	return exhibit(fmt.Sprintf("Where no order was found for the operations on %s in the time given", t.key),
		opSpans(ops, func(op record.Op) bool { return op == first })...)
}

// rivalOf finds what makes an operation impossible: an update of the same version,
// or the newest that was known of the key before and is not what it returned.
func rivalOf(culprit record.Op, ops []record.Op) *record.Op {
	var rival *record.Op
	for i := range ops {
		op := &ops[i]
		if op.Outcome != record.OK && !evidence(*op) || *op == culprit {
			continue
		}
		if isWrite(op.Type) && culprit.Outcome == record.OK && culprit.Expect != "" && op.Expect == culprit.Expect {
			return op
		}
		known := op.Type == record.OpDelete || op.Outcome == record.Refused || op.Value != culprit.Value
		if op.Return < culprit.Call && known && (rival == nil || op.Return > rival.Return) {
			rival = op
		}
	}
	return rival
}

// describeShort gives what an operation did for people, without who did it.
func describeShort(op record.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s through %s", verb(op), op.Entrance)
	switch {
	case op.Type == record.OpGet:
		b.WriteString(" returning " + quoted(op.Value, op.Found))
	case op.Type != record.OpDelete:
		fmt.Fprintf(&b, " of %q", op.Value)
	}
	if op.Expect != "" {
		b.WriteString(" over version " + op.Expect)
	}
	return b.String()
}
