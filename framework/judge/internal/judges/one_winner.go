package judges

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// oneWinner adds to linearizability that it does not depend on any order: two writes that
// replaced the same version are wrong whenever they were made, so it names both.
var oneWinner = Definition{Doc{
	Name:      "one-winner",
	Invariant: "HA-INV-001",
	Lasting:   true,
	Guarantee: "Of the updates and deletes that compare with one version of a key, exactly one succeeds: at most one in any case, and one if all were answered and nothing else changed the key.",
	Source:    "Kubernetes API concepts (resource versions, optimistic concurrency); etcd transactions",
	Params: map[string]string{
		"contended": "how many versions writes through different API servers must have contended for, under way at the same time and answered (default 0)",
	},
}, given(count("contended", 0, 0), judgeOneWinner)}

// contest is about who replaces one version of a key.
type contest struct{ api, key, version string }

func judgeOneWinner(m *facts.Case, least int) Finding {
	contests := map[contest]*contenders{}
	books, shown := facts.NewWriteLog(m.Run), quorumSightings(m.Run)
	for _, op := range record.Each(m.Run.Ops) {
		// For a key that must not exist, etcd compares with version 0 each time.
		if !facts.IsWrite(op.Type) || op.Expect == "" || op.Expect == "0" || op.Purpose == "ready" {
			continue
		}
		c := contest{op.API, op.Key, op.Expect}
		if contests[c] == nil {
			contests[c] = &contenders{}
		}
		contests[c].tried = append(contests[c].tried, op)
		if won(op, books, shown) {
			contests[c].won = append(contests[c].won, op)
		}
	}
	if len(contests) == 0 {
		return notApplicable("The record has no write that compares with a version.")
	}
	contended, apart, won := 0, 0, 0
	var broken, lost []record.Op
	made := versionsMade(m.Run, contests)
	var before *record.Op // what showed the version that none replaced
	for c, r := range contests {
		met, through := r.met(m)
		contended += int(b2i(met))
		apart += int(b2i(through))
		won += min(1, len(r.won))
		if len(r.won) == 0 && r.noneMayLose(made[c], books) && (lost == nil || earlier(r.tried[0], lost[0])) {
			lost, before = r.tried, made[c]
		}
		if len(r.won) < 2 {
			continue
		}
		slices.SortStableFunc(r.won, func(a, b record.Op) int {
			return cmp.Or(cmp.Compare(a.Return, b.Return), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client))
		})
		if broken == nil || earlier(r.won[1], broken[1]) {
			broken = r.won
		}
	}
	if broken != nil {
		first, second := broken[0], broken[1]
		return Failed("Of the writes that compare with one version, one must win: %s replacing version %s of %s succeeded: %s's %s (%s to %s) and %s's %s (%s to %s).",
			text.Plural(len(broken), "write"), first.Expect, first.Key, first.Client, describeShort(first), text.When(first.Call), text.When(first.Return),
			second.Client, describeShort(second), text.When(second.Call), text.When(second.Return)).
			number(len(broken), "winner").Shows(text.Describe(first), text.Describe(second)).
			exhibits(facts.Exhibit("Both replaced version "+first.Expect+" of "+first.Key, facts.OpSpan(first), facts.Blamed(facts.OpSpan(second))))
	}
	if lost != nil {
		return Failed("Of the writes that compare with one version, one must win: none of %d writes replacing version %s of %s succeeded, all of them were answered, and nothing else changed the key: %s's %s (%s to %s) was refused, too.",
			len(lost), lost[0].Expect, lost[0].Key, lost[0].Client, describeShort(lost[0]), text.When(lost[0].Call), text.When(lost[0].Return)).
			counted("no winner").Shows(text.Describe(*before)).Shows(descriptions(lost)...).
			exhibits(facts.Exhibit("None replaced version "+lost[0].Expect+" of "+lost[0].Key, facts.OpSpans(append([]record.Op{*before}, lost...), func(op record.Op) bool { return op == lost[0] })...))
	}
	if apart < least {
		return Inconclusive("writes through different API servers contended at the same time for %s, fewer than the %d required for a verdict", text.Plural(apart, "version"), least)
	}
	return Passed("For each of %s (%d contended for), exactly one write succeeded, or none if another change came first.", text.Plural(len(contests), "version"), contended).
		counted("%d versions, %d replaced", len(contests), won)
}

// contenders are the attempts to replace one version of a key.
type contenders struct{ tried, won []record.Op }

// met reports whether two answered attempts were in flight at the same time, and whether two
// through different API servers were: a balancer may lead to either.
func (r *contenders) met(m *facts.Case) (met, apart bool) {
	for i, a := range r.tried {
		for _, b := range r.tried[:i] {
			if compared(a) && compared(b) && a.Call < b.Return && b.Call < a.Return {
				met = true
				apart = apart || a.API == facts.APIKubernetes && a.Entrance != b.Entrance && m.IsNode(a.Entrance) && m.IsNode(b.Entrance)
			}
		}
	}
	return met, apart
}

// compared reports whether a write reached the comparison.
func compared(op record.Op) bool { return op.Outcome == record.OK || Evidence(op) }

// noneMayLose reports whether one of the attempts must have won: the version existed before them
// (made shows it), each was refused because the key had another version or did not exist, and
// nothing else can have replaced or deleted it.
func (r *contenders) noneMayLose(made *record.Op, books facts.WriteLog) bool {
	first, last := r.tried[0].Call, record.Nanos(0)
	for _, op := range r.tried {
		if op.Refusal != record.RefusedVersion && op.Refusal != record.RefusedAbsent {
			return false
		}
		first, last = min(first, op.Call), max(last, op.Return)
	}
	if made == nil || made.Return >= first {
		return false
	}
	writes := books.Of(r.tried[0]).Writes
	for i := len(writes) - 1; i >= 0; i-- {
		w := writes[i]
		before := w.Outcome == record.OK && (w.Return < made.Call || record.Number(w.Revision) > 0 && record.Number(w.Revision) <= record.Number(made.Revision))
		if w.Call < last && !before {
			return false
		}
	}
	return true
}

// versionsMade returns the first acknowledged write or quorum read that showed each
// contended version.
func versionsMade(run *record.Run, contests map[contest]*contenders) map[contest]*record.Op {
	made := map[contest]*record.Op{}
	for i := range run.Ops {
		op := &run.Ops[i].V
		c := contest{op.API, op.Key, op.Revision}
		if contests[c] == nil || op.Outcome != record.OK || !facts.IsWrite(op.Type) && !facts.IsQuorumRead(*op) {
			continue
		}
		if made[c] == nil || op.Return < made[c].Return {
			made[c] = op
		}
	}
	return made
}

func descriptions(ops []record.Op) (all []string) {
	for _, op := range ops {
		all = append(all, text.Describe(op))
	}
	return all
}

// earlier orders operations by their ends, with a fixed order for equal ends.
func earlier(a, b record.Op) bool {
	return cmp.Or(cmp.Compare(a.Return, b.Return), cmp.Compare(a.API, b.API), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Expect, b.Expect)) < 0
}

// quorumSightings are what quorum reads returned, by API, key and value.
func quorumSightings(run *record.Run) map[[3]string]bool {
	shown := map[[3]string]bool{}
	for _, o := range run.Ops {
		if op := o.V; facts.IsQuorumRead(op) && op.Outcome == record.OK && op.Found {
			shown[[3]string{op.API, op.Key, op.Value}] = true
		}
	}
	return shown
}

// won reports whether a compare-and-swap replaced the version that it names. One of unknown
// outcome did if a client read its value and no other write wrote that value. An update that
// changes nothing succeeds and replaces nothing: it returns the version that it compared with.
func won(op record.Op, books facts.WriteLog, shown map[[3]string]bool) bool {
	switch op.Outcome {
	case record.OK:
		return op.Revision != op.Expect
	case record.Unknown:
		return op.Type != record.OpDelete && len(books.Of(op).Sources[op.Value]) == 1 && shown[[3]string{op.API, op.Key, op.Value}]
	}
	return false
}
