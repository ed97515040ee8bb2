package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// readYourWrites adds to linearizability that it concerns one client and two of its
// own operations: nobody else's clock or outcome is needed to see it.
func readYourWrites() definition {
	return definition{Doc{
		Name:      "read-your-writes",
		Invariant: "HA-INV-001",
		Lasting:   true,
		Guarantee: "A quorum read returns what the same client was acknowledged to have written before, or something newer.",
		Source:    "Kubernetes API concepts (consistent reads); session guarantees (Terry et al., 1994)",
	}, judgeReadYourWrites}
}

func judgeReadYourWrites(m *matter) finding {
	books := newLedger(m.run)
	reads, broken, clients := 0, 0, map[string]bool{}
	var worst *finding
	var first record.Op
	for _, s := range sessions(ownOps(m.run), func(op record.Op) bool { return isWrite(op.Type) || isQuorumRead(op) }) {
		var own []record.Op // acknowledged writes
		for _, op := range s.ops {
			if isWrite(op.Type) {
				own = append(own, op)
				continue
			}
			w := lastBefore(own, op.Call)
			if w == nil {
				continue
			}
			reads++
			clients[s.client] = true
			if !books.older(op, *w) {
				continue
			}
			broken++
			if worst == nil || op.Call < first.Call {
				first = op
				f := failed("A client must read its own writes: %s's %s of %s, called %s, is older than its own %s, acknowledged %s.",
					op.Client, describeShort(op), op.Key, at(op.Call), describeShort(*w), at(w.Return)).
					shows(describe(*w), describe(op)).
					exhibits(exhibit(op.Client+" does not read its own write", opSpan(*w), opSpan(op).blamed()))
				worst = &f
			}
		}
	}
	switch {
	case worst != nil:
		return worst.counted("%d of %d reads", broken, reads)
	case reads == 0:
		return notApplicable("no client read a key that it had written before")
	}
	return passed("In %s, each of %s found its own last write or something newer.", plural(reads, "quorum read"), plural(len(clients), "client")).
		counted("%d reads of %d clients", reads, len(clients))
}

// lastBefore returns the operation that returned last of those before t, nil for none.
func lastBefore(ops []record.Op, t record.Nanos) (last *record.Op) {
	// Those of one client overlap little: the last few calls hold the last return.
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
