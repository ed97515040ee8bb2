package judges

import (
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// noLostWrite adds to linearizability that it names the loss: it checks only the end of the run,
// when every write is over, and names the acknowledged write that is gone.
var noLostWrite = Definition{Doc{
	Name:      "no-lost-write",
	Invariant: "HA-INV-002",
	Lasting:   true,
	Guarantee: "At the end of the run, each API server returns every acknowledged write, unless another write or delete may have come after it, and every acknowledged create of a key that is never overwritten.",
	Source:    "etcd API guarantees (durability); the checks of every run of the catalogue",
}, judgeNoLostWrite}

func judgeNoLostWrite(m *facts.Case) Finding {
	books := facts.NewWriteLog(m.Run)
	reads := finalReads(m)
	asked := &finalCoverage{m: m, writes: finalWrites(m.Run), keys: map[string]facts.CollectionOf{},
		groups: map[facts.CollectionOf]*finalAttempts{}, done: map[finalRead]bool{}}
	answered := 0
	var lost []Finding
	for _, read := range reads {
		if !asked.add(read) {
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
	if len(asked.keys) == 0 {
		return notApplicable("The record has no final reads.")
	}
	if len(lost) > 0 {
		return lost[0].counted("%d of %d final reads", len(lost), answered)
	}
	if missing, through := asked.missing(); len(missing) > 0 {
		return Inconclusive("of %s, %d could not be read at the end of the run through %s, so it is not known whether writes were lost",
			text.Plural(len(asked.keys), "key"), len(missing), text.And(through))
	}
	writes := 0
	for key := range asked.keys {
		if a := books[key]; a != nil {
			for _, w := range a.Writes {
				if w.Outcome == record.OK {
					writes++
				}
			}
		}
	}
	if writes == 0 {
		return notApplicable("No write on a key that was read at the end was acknowledged.")
	}
	return Passed("At the end of the run, every key had its last acknowledged write, or what may have come after it (%s, %s, %s in all).",
		text.Plural(len(asked.keys), "key"), text.Plural(answered, "read"), text.Plural(writes, "acknowledged write")).
		counted("%d writes, %d reads", writes, answered)
}

// finalCoverage is which final reads were tried, and which of them were answered. A key is read
// through each entrance that its collection is read through at the end: first as the traffic left
// it, since its final write hides what was lost before, and again after that. Records from before
// there was a first read have only the second.
type finalCoverage struct {
	m      *facts.Case
	writes map[string]record.Nanos               // when the final write of a key was first called
	keys   map[string]facts.CollectionOf         // read at the end
	groups map[facts.CollectionOf]*finalAttempts // by collection
	done   map[finalRead]bool                    // answered
}

// finalRead is a read of a key through an entrance, before its final write or after it.
type finalRead struct {
	key, entrance string
	before        bool
}

// finalAttempts is what was tried of one collection, whatever the answers.
type finalAttempts struct {
	entrances     map[string]bool
	before, after bool
}

// add counts a final read and reports whether it was answered with what was requested.
func (c *finalCoverage) add(read record.Op) (answered bool) {
	key, of := facts.LoggedKey(read), facts.CollectionOf{API: read.API, Name: read.Collection}
	g := c.groups[of]
	if g == nil {
		g = &finalAttempts{entrances: map[string]bool{}}
		c.groups[of] = g
	}
	c.keys[key] = of
	g.entrances[read.Entrance] = true
	write, written := c.writes[key]
	before := written && read.Call < write
	g.before, g.after = g.before || before, g.after || !before
	if read.Outcome != record.OK || read.IsOther() {
		return false
	}
	c.done[finalRead{key, read.Entrance, before}] = true
	return true
}

// missing returns the keys that were not read through each entrance, and those entrances. The
// clients of a node that has left the cluster may have tried in vain.
func (c *finalCoverage) missing() (keys, entrances []string) {
	through := map[string]bool{}
	for key, of := range c.keys {
		g, complete := c.groups[of], true
		_, written := c.writes[key]
		for e := range g.entrances {
			if !c.m.Stays(e) || (!g.after || c.done[finalRead{key, e, false}]) && (!g.before || !written || c.done[finalRead{key, e, true}]) {
				continue
			}
			complete, through[e] = false, true
		}
		if !complete {
			keys = append(keys, key)
		}
	}
	return keys, slices.Sorted(maps.Keys(through))
}

func finalVerb(read record.Op) string {
	if read.Purpose == text.PurposeListed {
		return text.PurposeListed
	}
	return "read"
}

// finalReads returns the quorum reads that were made once the traffic had stopped, in the
// order of the record: of one key, then those of lists, of every key of their collection.
func finalReads(m *facts.Case) (reads []record.Op) {
	keys := map[facts.CollectionOf][]string{}
	seen := map[string]bool{}
	for _, op := range record.Each(m.Run.Ops) {
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
	for _, op := range record.Each(run.Ops) {
		if op.Purpose != facts.PurposeFinalWrite || !facts.IsWrite(op.Type) {
			continue
		}
		if at, known := calls[facts.LoggedKey(op)]; !known || op.Call < at {
			calls[facts.LoggedKey(op)] = op.Call
		}
	}
	return calls
}
