package judge

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// oneWinner adds to linearizability that it needs no order of anything: two writes
// that replaced one version are wrong whenever they were made, so both are named.
func oneWinner() definition {
	return definition{Doc{
		Name:      "one-winner",
		Guarantee: "Of the updates and deletes that compare with one version of a key, at most one succeeds.",
		Source:    "Kubernetes API concepts (resource versions, optimistic concurrency); etcd transactions",
		Params: map[string]string{
			"contended": "how many versions writes through different entrances must have contended for (default 0)",
		},
	}, judgeOneWinner}
}

// contest is about who replaces one version of a key.
type contest struct{ api, key, version string }

func judgeOneWinner(m *matter) finding {
	least, err := strconv.Atoi(m.param("contended", "0"))
	if err != nil || least < 0 {
		return inconclusive("the check cannot be judged: parameter contended = %q is no number", m.check.Params["contended"])
	}
	type result struct {
		tried int
		// entrance is the first one that the version was written through, apart tells
		// whether another one was as well.
		entrance string
		apart    bool
		won      []record.Op
	}
	contests := map[contest]*result{}
	books, shown := newLedger(m.run), quorumSightings(m.run)
	for _, o := range m.run.Ops {
		op := o.V
		// etcd compares with version 0 for a key that must not be there, again and again.
		if !isWrite(op.Type) || op.Expect == "" || op.Expect == "0" || op.Purpose == "ready" {
			continue
		}
		c := contest{op.API, op.Key, op.Expect}
		if contests[c] == nil {
			contests[c] = &result{entrance: op.Entrance}
		}
		contests[c].tried++
		contests[c].apart = contests[c].apart || op.Entrance != contests[c].entrance
		if won(op, books, shown) {
			contests[c].won = append(contests[c].won, op)
		}
	}
	if len(contests) == 0 {
		return notApplicable("the record has no write that compares with a version")
	}
	contended, apart, won := 0, 0, 0
	var broken []record.Op
	for _, r := range contests {
		if r.tried > 1 {
			contended++
		}
		if r.apart {
			apart++
		}
		won += min(1, len(r.won))
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
		return failed("Of the writes that compare with one version, one must win: over version %s of %s, %s succeeded: %s's %s (%s to %s) and %s's %s (%s to %s).",
			first.Expect, first.Key, plural(len(broken), "write"), first.Client, describeShort(first), when(first.Call), when(first.Return),
			second.Client, describeShort(second), when(second.Call), when(second.Return)).
			counted("%d winners", len(broken)).shows(describe(first), describe(second)).
			exhibits(exhibit("Both replaced version "+first.Expect+" of "+first.Key, opSpan(first), opSpan(second).blamed()))
	}
	if apart < least {
		return inconclusive("writes through different entrances contended for %s, fewer than the %d that it takes to say anything", plural(apart, "version"), least)
	}
	return passed("Of the writes over each of %s, %d of them contended for, at most one succeeded.", plural(len(contests), "version"), contended).
		counted("%d versions, %d replaced", len(contests), won)
}

// earlier orders operations by their ends, and those that end together in some way.
func earlier(a, b record.Op) bool {
	return cmp.Or(cmp.Compare(a.Return, b.Return), cmp.Compare(a.API, b.API), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Expect, b.Expect)) < 0
}

// quorumSightings are what quorum reads returned, by API, key and value.
func quorumSightings(run *record.Run) map[[3]string]bool {
	shown := map[[3]string]bool{}
	for _, o := range run.Ops {
		if op := o.V; isQuorumRead(op) && op.Outcome == record.OK && op.Found {
			shown[[3]string{op.API, op.Key, op.Value}] = true
		}
	}
	return shown
}

// won tells whether a compare-and-swap replaced the version that it names. One of
// unknown outcome did if somebody read its value and nobody else wrote that. An
// update that changes nothing succeeds and replaces nothing: it returns the version
// that it compared with.
func won(op record.Op, books ledger, shown map[[3]string]bool) bool {
	switch op.Outcome {
	case record.OK:
		return op.Revision != op.Expect
	case record.Unknown:
		return op.Type != record.OpDelete && len(books.of(op).sources[op.Value]) == 1 && shown[[3]string{op.API, op.Key, op.Value}]
	}
	return false
}
