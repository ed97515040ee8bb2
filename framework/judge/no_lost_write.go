package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// noLostWrite adds to linearizability that it names the loss: it looks at the end of
// the run alone, where every write is over, and says which acknowledged write is gone.
func noLostWrite() definition {
	return definition{Doc{
		Name:      "no-lost-write",
		Invariant: "HA-INV-002",
		Lasting:   true,
		Guarantee: "An acknowledged write is there at the end of the run, unless another write or delete may have come after it; of what nothing ever overwrites, every acknowledged create is.",
		Source:    "etcd API guarantees (durability); the checks of every run of the catalogue",
	}, judgeNoLostWrite}
}

func judgeNoLostWrite(m *matter) finding {
	books := newLedger(m.run)
	reads := finalReads(m)
	unread := map[string]bool{} // by key: whether no final read of it was answered
	hidden := map[string]bool{} // whether none was before the final write, though they were tried
	ended := finalWrites(m.run)
	answered := 0
	var lost []finding
	for _, read := range reads {
		key := ledgerKey(read)
		ok := read.Outcome == record.OK
		if was, known := unread[key]; !known || was {
			unread[key] = !ok
		}
		if end, written := ended[key]; written && read.Call < end {
			if was, known := hidden[key]; !known || was {
				hidden[key] = !ok
			}
		}
		if !ok {
			continue
		}
		answered++
		if w := books.staleAgainst(read); w != nil {
			lost = append(lost, failed("An acknowledged write must not be lost: %s's %s of %s, acknowledged %s, is not in the final %s through %s (%s), which returned %s; nothing that may have come later explains it.",
				w.Client, describeShort(*w), w.Key, at(w.Return), finalVerb(read), read.Entrance, at(read.Call), quoted(read.Value, read.Found)).
				shows(describe(*w), describe(read)).
				exhibits(exhibit("A write was acknowledged, and is not there at the end", opSpan(*w), opSpan(read).blamed())))
		}
	}
	if len(unread) == 0 {
		return notApplicable("the record has no final reads")
	}
	if len(lost) > 0 {
		return lost[0].counted("%d of %d final reads", len(lost), answered)
	}
	writes, missing := 0, 0
	for key, not := range unread {
		if not || hidden[key] {
			missing++
			continue
		}
		if a := books[key]; a != nil {
			for _, w := range a.writes {
				if w.Outcome == record.OK {
					writes++
				}
			}
		}
	}
	if missing > 0 {
		return inconclusive("of %s, %d could not be read at the end of the run, so it is not known whether writes were lost", plural(len(unread), "key"), missing)
	}
	if writes == 0 {
		return notApplicable("no write on a key that was read at the end was acknowledged")
	}
	return passed("At the end of the run, every key had its last acknowledged write, or what may have come after it (%s, %s, %s in all).",
		plural(len(unread), "key"), plural(answered, "read"), plural(writes, "acknowledged write")).
		counted("%d writes, %d reads", writes, answered)
}

func finalVerb(read record.Op) string {
	if read.Purpose == purposeListed {
		return purposeListed
	}
	return "read"
}

// finalReads returns the quorum reads that were made once the traffic had stopped, in the
// order of the record: of one key, then those of lists, of every key of their collection.
func finalReads(m *matter) (reads []record.Op) {
	keys := map[collectionOf][]string{}
	seen := map[string]bool{}
	for _, o := range m.run.Ops {
		op := o.V
		if op.Purpose == purposeFinalRead && isQuorumRead(op) {
			reads = append(reads, op)
		}
		if op.Collection != "" && isWrite(op.Type) && !seen[ledgerKey(op)] {
			seen[ledgerKey(op)] = true
			c := collectionOf{op.API, op.Collection}
			keys[c] = append(keys[c], op.Key)
		}
	}
	for _, l := range m.run.Lists {
		if l := l.V; l.Purpose == purposeFinalRead && l.Outcome != record.OK && l.Match == record.MatchUnset && l.Group == "" {
			failed := quorumList{Op: record.Op{Client: l.Client, Entrance: l.Entrance, API: l.API, Type: record.OpGet, Collection: l.Collection, Purpose: purposeListed,
				Call: l.Call, Return: l.Return, Outcome: l.Outcome, Error: l.Error}}
			reads = append(reads, failed.reads(keys[collectionOf{l.API, l.Collection}])...)
		}
	}
	for _, api := range []string{apiKubernetes, apiEtcd} {
		for _, l := range m.quorumLists(api) {
			if l.last {
				reads = append(reads, l.reads(keys[collectionOf{api, l.Collection}])...)
			}
		}
	}
	return reads
}

// finalWrites returns when the last write of each key was first called, by API and key.
func finalWrites(run *record.Run) map[string]record.Nanos {
	calls := map[string]record.Nanos{}
	for _, o := range run.Ops {
		op := o.V
		if op.Purpose != purposeFinalWrite || !isWrite(op.Type) {
			continue
		}
		if at, known := calls[ledgerKey(op)]; !known || op.Call < at {
			calls[ledgerKey(op)] = op.Call
		}
	}
	return calls
}
