package judge

import (
	"github.com/holdfast-ha/holdfast/framework/record"
)

// purposeFinalRead marks the reads of every register after the traffic has ended.
const purposeFinalRead = "final-read"

// noLostWrite adds to linearizability that it names the loss: it looks at the end of
// the run alone, where every write is over, and says which acknowledged write is gone.
func noLostWrite() definition {
	return definition{Doc{
		Name:      "no-lost-write",
		Guarantee: "An acknowledged write is there at the end of the run, unless another write or delete may have come after it.",
		Source:    "etcd API guarantees (durability); the checks of every run of the catalogue",
	}, judgeNoLostWrite}
}

func judgeNoLostWrite(m *matter) finding {
	books := newLedger(m.run)
	answered := map[string]bool{} // by key: whether any final read of it was answered
	reads := 0
	var lost []finding
	for _, o := range m.run.Ops {
		read := o.V
		if read.Purpose != purposeFinalRead || !isQuorumRead(read) {
			continue
		}
		key := ledgerKey(read)
		answered[key] = answered[key] || read.Outcome == record.OK
		if read.Outcome != record.OK {
			continue
		}
		reads++
		if w := books.staleAgainst(read); w != nil {
			lost = append(lost, failed("An acknowledged write must not be lost: %s's %s of %s, acknowledged %s, is not in the final read through %s (%s), which returned %s; nothing that may have come later explains it.",
				w.Client, describeShort(*w), w.Key, at(w.Return), read.Entrance, at(read.Call), quoted(read.Value, read.Found)).
				shows(describe(*w), describe(read)).
				exhibits(exhibit("A write was acknowledged, and is not there at the end", opSpan(*w), opSpan(read).blamed())))
		}
	}
	if len(answered) == 0 {
		return notApplicable("the record has no final reads")
	}
	if len(lost) > 0 {
		return lost[0].counted("%d of %d final reads", len(lost), reads)
	}
	writes, missing := 0, 0
	for key, ok := range answered {
		if !ok {
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
		return inconclusive("of %s, %d could not be read at the end of the run, so nobody knows whether writes were lost", plural(len(answered), "key"), missing)
	}
	if writes == 0 {
		return notApplicable("no write on a key that was read at the end was acknowledged")
	}
	return passed("At the end of the run, every key had its last acknowledged write, or what may have come after it (%s, %s, %s in all).",
		plural(len(answered), "key"), plural(reads, "read"), plural(writes, "acknowledged write")).
		counted("%d writes, %d reads", writes, reads)
}
