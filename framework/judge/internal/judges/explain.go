package judges

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// ShowLimit is how many operations an exhibit may have and still be readable.
const ShowLimit = 40

// refusals are the reasons for refusals, as text.
var refusals = map[record.Refusal]string{
	record.RefusedAbsent:  "the key did not exist",
	record.RefusedPresent: "the key existed",
	record.RefusedVersion: "the key had another version",
}

// Explain describes which operations of an illegal part cannot be explained.
func (t *trial) Explain() Finding {
	var ops []record.Op
	for _, i := range t.Core {
		ops = append(ops, t.Refutation.act(i).told())
	}
	culprit := t.culprit()
	came := "succeeded"
	if culprit.Outcome == record.Refused {
		came = "was refused, since " + refusals[culprit.Refusal] + ","
	}
	sentence := fmt.Sprintf("The history of reads and writes must be linearizable: that of %s is not. %s's %s, called %s, ",
		t.key, culprit.Client, describeShort(culprit), text.At(culprit.Call))
	evidence := []string{text.Describe(culprit)}
	if rival := rivalOf(culprit, ops); rival == nil {
		sentence += "has no place among " + text.Plural(len(ops), "operation")
	} else {
		evidence = append(evidence, text.Describe(*rival))
		how, did := " although ", " had ended "+text.At(rival.Return)
		switch {
		case rival.Outcome == record.Refused:
			did = " had been refused " + text.At(rival.Return) + ", since " + refusals[rival.Refusal]
		case rival.Return < culprit.Call && facts.IsWrite(rival.Type):
			did = " had been acknowledged " + text.At(rival.Return)
		case facts.IsWrite(rival.Type):
			how, did = " next to ", ", acknowledged "+text.At(rival.Return)
		}
		sentence += came + how + rival.Client + "'s " + describeShort(*rival) + did
	}
	for _, op := range ops {
		if line := text.Describe(op); !slices.Contains(evidence, line) {
			evidence = append(evidence, line)
		}
	}
	f := Failed("%s.", sentence).Shows(evidence...)
	if len(ops) > ShowLimit {
		return f
	}
	return f.exhibits(facts.Exhibit(fmt.Sprintf("No order explains these %s on %s", text.Plural(len(ops), "operation"), t.key),
		facts.OpSpans(ops, func(op record.Op) bool { return op == culprit })...))
}

// culprit is the operation whose return makes the part illegal. A part that is legal up to some
// time is legal up to any earlier time.
func (t *trial) culprit() record.Op {
	returns := map[int64]bool{}
	for _, i := range t.Core {
		if t.Refutation.act(i).Outcome == record.OK {
			returns[t.Refutation.Ops[i].Return] = true
		}
	}
	times := slices.Sorted(maps.Keys(returns))
	i := sort.Search(len(times), func(i int) bool { return t.illegalUntil(times[i]) })
	last := times[min(i, len(times)-1)]
	var culprit record.Op
	for _, i := range t.Core {
		op := t.Refutation.act(i).Op
		if op.Outcome == record.OK && int64(op.Return) == last && (culprit.Key == "" || !facts.IsWrite(op.Type)) {
			culprit = t.Refutation.act(i).told()
		}
	}
	return culprit
}

// illegalUntil checks the part as of some time: what had not returned may or may not have taken
// effect.
func (t *trial) illegalUntil(at int64) bool {
	r := *t.Refutation
	r.Ops = slices.Clone(r.Ops)
	var shown []int
	for _, i := range t.Core {
		o, a := r.Ops[i], r.act(i)
		switch {
		case o.Call > at:
			continue
		case o.Return > at && facts.IsWrite(a.Type):
			a.Outcome = record.Unknown
			r.Ops[i].Input, r.Ops[i].Return = a, facts.Never
		case o.Return > at:
			continue
		}
		shown = append(shown, i)
	}
	return r.Illegal(r.Closed(shown))
}

// lost shows where the search failed: the operations around the place at which the replay
// stopped.
func (t *trial) lost() *verdict.Exhibit {
	var ops []record.Op
	for _, i := range NewRefutation(t.ops, t.search).around(t.places(), ShowLimit/2) {
		ops = append(ops, t.ops[i].Input.(action).told())
	}
	ops = ops[:min(len(ops), ShowLimit)]
	first := t.stuck[0].told()
	return facts.Exhibit(fmt.Sprintf("Where no order was found for the operations on %s in the time given", t.key),
		facts.OpSpans(ops, func(op record.Op) bool { return op == first })...)
}

// rivalOf finds what makes an operation impossible: an update of the same version, or the newest
// known state of the key before it, if that is not what it returned.
func rivalOf(culprit record.Op, ops []record.Op) *record.Op {
	var rival *record.Op
	for i := range ops {
		op := &ops[i]
		if op.Outcome != record.OK && !Evidence(*op) || *op == culprit {
			continue
		}
		if facts.IsWrite(op.Type) && culprit.Outcome == record.OK && culprit.Expect != "" && op.Expect == culprit.Expect {
			return op
		}
		known := op.Type == record.OpDelete || op.Outcome == record.Refused || op.Value != culprit.Value
		if op.Return < culprit.Call && known && (rival == nil || op.Return > rival.Return) {
			rival = op
		}
	}
	return rival
}

// describeShort describes what an operation did, without its client.
func describeShort(op record.Op) string {
	what := text.Verb(op) + " through " + op.Entrance
	switch {
	case op.Type == record.OpGet:
		what += " returning " + text.Quoted(op.Value, op.Found)
	case op.Type != record.OpDelete:
		what += fmt.Sprintf(" of %q", op.Value)
	}
	if op.Expect != "" {
		what += " replacing version " + op.Expect
	}
	return what
}
