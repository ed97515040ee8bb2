package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// monotonicReads adds to linearizability that it compares what one client saw in two reads,
// no matter which client wrote it, and that it includes the objects of quorum lists.
var monotonicReads = Definition{Doc{
	Name:      "monotonic-reads",
	Invariant: "HA-INV-001",
	Lasting:   true,
	Guarantee: "What a client reads with a quorum never goes back: a later read or list returns no older version of a key, and nothing that was gone comes back.",
	Source:    "Kubernetes API concepts (consistent reads); session guarantees (Terry et al., 1994)",
}, judgeMonotonicReads}

func judgeMonotonicReads(m *facts.Case) Finding {
	books := facts.NewWriteLog(m.Run)
	pairs, broken, clients := 0, 0, map[string]bool{}
	var worst *Finding
	var first record.Op
	for _, s := range facts.Sessions(append(facts.OwnOps(m.Run), itemsRead(m.Run)...), facts.IsQuorumRead) {
		var newest, absent *record.Op // of the reads that returned before
		waiting := 0                  // the first read that has not been counted as returned
		for i := range s.Ops {
			op := &s.Ops[i]
			for ; waiting < i && s.Ops[waiting].Return < op.Call; waiting++ {
				before := &s.Ops[waiting]
				if !before.Found {
					absent = before
				} else if newest == nil || facts.NewerRead(*before, *newest) {
					newest = before
				}
			}
			if newest == nil && absent == nil {
				continue
			}
			pairs++
			clients[s.Client] = true
			var before *record.Op
			switch {
			case newest != nil && books.Older(*op, *newest):
				before = newest
			case absent != nil && books.Older(*op, *absent):
				before = absent
			default:
				continue
			}
			broken++
			if worst == nil || op.Call < first.Call {
				first = *op
				f := Failed("What a client reads must not go back: %s's %s of %s, called %s, is older than what its %s showed, which had ended %s.",
					op.Client, versioned(*op), op.Key, text.At(op.Call), versioned(*before), text.At(before.Return)).
					Shows(text.Describe(*before), text.Describe(*op)).
					exhibits(facts.Exhibit("What "+op.Client+" reads goes back", facts.OpSpan(*before), facts.Blamed(facts.OpSpan(*op))))
				worst = &f
			}
		}
	}
	switch {
	case worst != nil:
		return worst.counted("%d of %d reads", broken, pairs)
	case pairs == 0:
		return notApplicable("No client read a key twice with a quorum.")
	}
	return Passed("In %s, each of %s saw no key go back.", text.Plural(pairs, "repeated quorum read"), text.Plural(len(clients), "client")).
		counted("%d reads of %d clients", pairs, len(clients))
}

// itemsRead returns the objects of quorum lists as reads of their keys. Objects that a list does
// not have say nothing here.
func itemsRead(run *record.Run) (reads []record.Op) {
	for _, l := range run.Lists {
		if l.V.Outcome != record.OK || l.V.Match != record.MatchUnset {
			continue
		}
		for _, item := range l.V.Items {
			reads = append(reads, record.Op{Client: l.V.Client, Entrance: l.V.Entrance, API: l.V.API, Type: record.OpGet,
				Collection: l.V.Collection, Key: item.Key, Found: true, Value: item.Value, Revision: item.Revision,
				Call: l.V.Call, Return: l.V.Return, Outcome: record.OK})
		}
	}
	return reads
}

func versioned(op record.Op) string {
	if op.Revision == "" {
		return describeShort(op)
	}
	return describeShort(op) + " at version " + op.Revision
}
