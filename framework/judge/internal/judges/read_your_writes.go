package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// readYourWrites adds to linearizability that it concerns one client and two of its own
// operations: it does not depend on another client's clock or outcome.
var readYourWrites = Definition{Doc{
	Name:      "read-your-writes",
	Invariant: "HA-INV-001",
	Lasting:   true,
	Guarantee: "A quorum read returns the same client's last acknowledged write, or something newer.",
	Source:    "Kubernetes API concepts (consistent reads); session guarantees (Terry et al., 1994)",
}, judgeReadYourWrites}

func judgeReadYourWrites(m *facts.Case) Finding {
	books := facts.NewWriteLog(m.Run)
	reads, broken, clients := 0, 0, map[string]bool{}
	var worst *Finding
	var first record.Op
	for _, s := range facts.Sessions(facts.OwnOps(m.Run), func(op record.Op) bool { return facts.IsWrite(op.Type) || facts.IsQuorumRead(op) }) {
		var own []record.Op // acknowledged writes
		for _, op := range s.Ops {
			if facts.IsWrite(op.Type) {
				own = append(own, op)
				continue
			}
			w := lastBefore(own, op.Call)
			if w == nil {
				continue
			}
			reads++
			clients[s.Client] = true
			if !books.Older(op, *w) {
				continue
			}
			broken++
			if worst == nil || op.Call < first.Call {
				first = op
				f := Failed("A client must read its own writes: %s's %s of %s, called %s, is older than its own %s, acknowledged %s.",
					op.Client, describeShort(op), op.Key, text.At(op.Call), describeShort(*w), text.At(w.Return)).
					Shows(text.Describe(*w), text.Describe(op)).
					exhibits(facts.Exhibit(op.Client+" does not read its own write", facts.OpSpan(*w), facts.Blamed(facts.OpSpan(op))))
				worst = &f
			}
		}
	}
	switch {
	case worst != nil:
		return worst.counted("%d of %d reads", broken, reads)
	case reads == 0:
		return notApplicable("No client read a key that it had written before.")
	}
	return Passed("In %s, each of %s found its own last write or something newer.", text.Plural(reads, "quorum read"), text.Plural(len(clients), "client")).
		counted("%d reads of %d clients", reads, len(clients))
}

// lastBefore returns the last operation that returned before t, nil for none.
func lastBefore(ops []record.Op, t record.Nanos) (last *record.Op) {
	// Operations of one client overlap little: the last few calls include the last return.
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Return < t && (last == nil || ops[i].Return > last.Return) {
			last = &ops[i]
		}
		if last != nil && len(ops)-i > 16 {
			break
		}
	}
	return last
}
