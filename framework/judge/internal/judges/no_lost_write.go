package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// noLostWrite adds to linearizability that it names the loss: it checks only the end of the run,
// when every write is over, and names the acknowledged write that is gone.
func noLostWrite() Definition {
	return Definition{verdict.Doc{
		Name:      "no-lost-write",
		Invariant: "HA-INV-002",
		Lasting:   true,
		Guarantee: "An acknowledged write is there at the end of the run, unless another write or delete may have come after it; of what nothing ever overwrites, every acknowledged create is.",
		Source:    "etcd API guarantees (durability); the checks of every run of the catalogue",
	}, judgeNoLostWrite}
}

func judgeNoLostWrite(m *facts.Matter) Finding {
	books := facts.NewWriteLog(m.Run)
	reads := finalReads(m)
	unread := map[string]bool{} // by key: whether no final read of it was answered
	hidden := map[string]bool{} // whether none was before the final write, though they were tried
	ended := finalWrites(m.Run)
	answered := 0
	var lost []Finding
	for _, read := range reads {
		key := facts.LoggedKey(read)
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
		if w := books.StaleAgainst(read); w != nil {
			lost = append(lost, Failed("An acknowledged write must not be lost: %s's %s of %s, acknowledged %s, is not in the final %s through %s (%s), which returned %s; nothing that may have come later explains it.",
				w.Client, describeShort(*w), w.Key, text.At(w.Return), finalVerb(read), read.Entrance, text.At(read.Call), text.Quoted(read.Value, read.Found)).
				Shows(text.Describe(*w), text.Describe(read)).
				exhibits(facts.Exhibit("A write was acknowledged, and is not there at the end", facts.OpSpan(*w), facts.Blamed(facts.OpSpan(read)))))
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
			for _, w := range a.Writes {
				if w.Outcome == record.OK {
					writes++
				}
			}
		}
	}
	if missing > 0 {
		return Inconclusive("of %s, %d could not be read at the end of the run, so it is not known whether writes were lost", text.Plural(len(unread), "key"), missing)
	}
	if writes == 0 {
		return notApplicable("no write on a key that was read at the end was acknowledged")
	}
	return Passed("At the end of the run, every key had its last acknowledged write, or what may have come after it (%s, %s, %s in all).",
		text.Plural(len(unread), "key"), text.Plural(answered, "read"), text.Plural(writes, "acknowledged write")).
		counted("%d writes, %d reads", writes, answered)
}

func finalVerb(read record.Op) string {
	if read.Purpose == text.PurposeListed {
		return text.PurposeListed
	}
	return "read"
}

// finalReads returns the quorum reads that were made once the traffic had stopped, in the
// order of the record: of one key, then those of lists, of every key of their collection.
func finalReads(m *facts.Matter) (reads []record.Op) {
	keys := map[facts.CollectionOf][]string{}
	seen := map[string]bool{}
	for _, o := range m.Run.Ops {
		op := o.V
		if op.Purpose == facts.PurposeFinalRead && facts.IsQuorumRead(op) {
			reads = append(reads, op)
		}
		if op.Collection != "" && facts.IsWrite(op.Type) && !seen[facts.LoggedKey(op)] {
			seen[facts.LoggedKey(op)] = true
			c := facts.CollectionOf{API: op.API, Name: op.Collection}
			keys[c] = append(keys[c], op.Key)
		}
	}
	for _, l := range m.Run.Lists {
		if l := l.V; l.Purpose == facts.PurposeFinalRead && l.Outcome != record.OK && l.Match == record.MatchUnset && l.Group == "" {
			failed := facts.QuorumList{Op: record.Op{Client: l.Client, Entrance: l.Entrance, API: l.API, Type: record.OpGet, Collection: l.Collection, Purpose: text.PurposeListed,
				Call: l.Call, Return: l.Return, Outcome: l.Outcome, Error: l.Error}}
			reads = append(reads, failed.Reads(keys[facts.CollectionOf{API: l.API, Name: l.Collection}])...)
		}
	}
	for _, api := range []string{facts.APIKubernetes, facts.APIEtcd} {
		for _, l := range m.QuorumLists(api) {
			if l.Last {
				reads = append(reads, l.Reads(keys[facts.CollectionOf{API: api, Name: l.Collection}])...)
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
		if op.Purpose != facts.PurposeFinalWrite || !facts.IsWrite(op.Type) {
			continue
		}
		if at, known := calls[facts.LoggedKey(op)]; !known || op.Call < at {
			calls[facts.LoggedKey(op)] = op.Call
		}
	}
	return calls
}
