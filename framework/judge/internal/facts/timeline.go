package facts

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// NoVersion is a version that no change has.
const NoVersion = math.MaxUint64

// VersionOf names one change: no two changes of a key have the same version.
type VersionOf struct {
	Key      string
	Revision uint64
}

// Write is an operation that changed a key, or may have.
type Write struct {
	Op *record.Op
	// Revision is the version that it made, 0 if the record does not show it.
	Revision uint64
	// Group is the group of the key after the write.
	Group string
	// If it took effect, it did so after version after and before version before.
	after, before uint64
}

func (w *Write) Deletes() bool { return w.Op.Type == record.OpDelete }

// creates reports whether the write can create a key that does not exist.
func (w *Write) creates() bool { return w.Op.Type == record.OpCreate || w.Op.Type == record.OpPut }

// fitsPresent reports whether the write can change a key that exists.
func (w *Write) fitsPresent() bool { return w.Op.Type != record.OpCreate }

// expect is the version that the write replaced, 0 if it named none.
func (w *Write) expect() uint64 { return record.Number(w.Op.Expect) }

// KeyChange is one known change of a key.
type KeyChange struct {
	VersionOf
	Present      bool
	Value, Group string
	// By is the write that made it; nil for what existed before the record started.
	By *Write
	// late marks a deletion of unknown version: it took effect by revision.
	late bool
	// unclear marks a change whose result is not known.
	unclear bool
	// Created and count are the version that created the key and the number of
	// changes since, the creation included, where they are known.
	Created uint64
	Count   int64
}

// KeyLine is what is known of one key.
type KeyLine struct {
	key     string
	Changes []KeyChange // in the order of their versions
	// doubt[i] is the lowest version between changes i-1 and i at which the key may
	// have changed without being seen; 0 for none.
	doubt []uint64
	// Disputed marks a key about which the record contradicts itself.
	Disputed bool
}

// At returns the change that made the key's state in a version, nil for absent.
func (l *KeyLine) At(revision uint64) (c *KeyChange, known bool) {
	i := sort.Search(len(l.Changes), func(i int) bool { return l.Changes[i].Revision > revision })
	if l.Disputed || l.doubt[i] > 0 && revision >= l.doubt[i] {
		return nil, false
	}
	if i == 0 || !l.Changes[i-1].Present {
		return nil, true
	}
	return &l.Changes[i-1], true
}

// Sure reports whether the key's state right before a change is known.
func (l *KeyLine) Sure(i int) bool { return !l.Disputed && l.doubt[i] == 0 }

// Before returns the change that made the key's state right before a change, nil for absent.
func (l *KeyLine) Before(i int) *KeyChange {
	if i == 0 || !l.Changes[i-1].Present {
		return nil
	}
	return &l.Changes[i-1]
}

// Find returns the index of the change with a version.
func (l *KeyLine) Find(revision uint64) (int, bool) {
	i := sort.Search(len(l.Changes), func(i int) bool { return l.Changes[i].Revision >= revision })
	return i, i < len(l.Changes) && l.Changes[i].Revision == revision && !l.Changes[i].late && !l.Changes[i].unclear
}

// PairOf is a key with a value. Values are unique, so it names a write.
type PairOf struct{ Key, Value string }

// Timeline is what is known of the keys of one collection: who changed them to what, in which
// version, and where that is not known. It is built from acknowledged writes, and from writes of
// unknown outcome whose value a read, a list or an event showed.
type Timeline struct {
	Lines   map[string]*KeyLine
	Keys    []string // sorted
	Writes  []*Write
	ByValue map[PairOf]*Write
	refused map[PairOf]*record.Op
	// First is the lowest version that an acknowledged write made.
	First uint64
	// acknowledged are the versions that acknowledged writes made.
	acknowledged []Mark[*Write]
	reached      Watermark[*Write] // of them
	// removals are acknowledged deletions by key.
	removals map[string][]*record.Op
	// deletions are versions at which a watch showed a key as deleted, and strangers are values
	// that no client in the record wrote.
	deletions map[string][]sightOf
	strangers map[VersionOf]sightOf
	disputed  map[string]bool
	// calls are the lowest versions that were not reached yet, by time; see highest.
	calls  []bound
	scopes map[Scope][]Expectation
}

// sightOf is a version that was seen, by a watch of a group if that is set.
type sightOf struct {
	VersionOf
	value, group string
}

// bound says that at some time a version was reached, or not yet.
type bound struct {
	At       record.Nanos
	Revision uint64
}

func newTimeline() *Timeline {
	return &Timeline{
		Lines: map[string]*KeyLine{}, ByValue: map[PairOf]*Write{}, refused: map[PairOf]*record.Op{},
		First: NoVersion, removals: map[string][]*record.Op{}, deletions: map[string][]sightOf{}, strangers: map[VersionOf]sightOf{}, disputed: map[string]bool{}, scopes: map[Scope][]Expectation{},
	}
}

func (t *Timeline) add(op *record.Op) {
	pair := PairOf{op.Key, op.Value}
	if op.Outcome == record.Refused {
		t.refused[pair] = op
		return
	}
	w := &Write{Op: op, Group: op.Group, before: NoVersion}
	if op.Outcome == record.OK {
		w.Revision = record.Number(op.Revision)
	}
	t.Writes = append(t.Writes, w)
	if w.Deletes() {
		if op.Outcome == record.OK {
			t.removals[op.Key] = append(t.removals[op.Key], op)
		}
		return
	}
	if t.ByValue[pair] != nil {
		t.disputed[op.Key] = true
	}
	t.ByValue[pair] = w
	if w.Revision > 0 {
		t.First = min(t.First, w.Revision)
		t.acknowledged = append(t.acknowledged, Mark[*Write]{op.Return, w.Revision, w})
		t.calls = append(t.calls, bound{op.Call, w.Revision})
	}
}

// sees records that a key had a value in a version.
func (t *Timeline) sees(key, value, group string, revision uint64) {
	if revision == 0 {
		return
	}
	w := t.ByValue[PairOf{key, value}]
	switch {
	case w == nil:
		id := VersionOf{key, revision}
		t.strangers[id] = sightOf{id, value, group}
	case w.Revision == 0:
		w.Revision = revision
		if w.Group == "" {
			w.Group = group
		}
	case w.Revision != revision && (w.Op.Outcome != record.OK || w.Op.Revision == ""):
		t.disputed[key] = true
	}
}

// settle builds the lines of the keys, once everything is added and seen.
func (t *Timeline) settle() {
	t.sortBounds()
	t.shareRevisions()
	writes := map[string][]*Write{}
	for _, w := range t.Writes {
		w.after, w.before = t.lowest(w.Op.Call), NoVersion
		if w.Op.Outcome == record.OK {
			w.before = t.highest(w.Op.Return)
		}
		writes[w.Op.Key] = append(writes[w.Op.Key], w)
	}
	old := map[string][]KeyChange{}
	for id, s := range t.strangers {
		if id.Revision < t.First {
			old[id.Key] = append(old[id.Key], KeyChange{VersionOf: id, Present: true, Value: s.value, Group: s.group})
			if writes[id.Key] == nil {
				writes[id.Key] = []*Write{}
			}
		}
	}
	for key, list := range writes {
		t.Lines[key] = newKeyLine(key, list, old[key], t.deletions[key], t.disputed[key])
		t.Keys = append(t.Keys, key)
	}
	slices.Sort(t.Keys)
}

// sortBounds prepares lowest and highest.
func (t *Timeline) sortBounds() {
	t.reached = NewWatermark(t.acknowledged)
	slices.SortFunc(t.calls, func(a, b bound) int { return cmp.Compare(a.At, b.At) })
	for i := len(t.calls) - 2; i >= 0; i-- {
		t.calls[i].Revision = min(t.calls[i].Revision, t.calls[i+1].Revision)
	}
}

// lowest returns a version that was reached before a time: operations called after it make higher
// ones.
func (t *Timeline) lowest(at record.Nanos) uint64 {
	if m := t.reached.Before(at); m != nil {
		return m.Revision
	}
	return 0
}

// highest returns a version that was not reached before a time: operations that returned before
// it made lower ones.
func (t *Timeline) highest(at record.Nanos) uint64 {
	i := sort.Search(len(t.calls), func(i int) bool { return t.calls[i].At > at })
	if i == len(t.calls) {
		return NoVersion
	}
	return t.calls[i].Revision
}

// removed returns a deletion that had been acknowledged before a time, and that was called when
// the item already existed, so that it must be gone; nil if there is none.
func (t *Timeline) removed(item record.Item, before record.Nanos) *record.Op {
	for _, d := range t.removals[item.Key] {
		w := t.ByValue[PairOf{item.Key, item.Value}]
		written := w != nil && w.Op.Outcome == record.OK && w.Op.Return < d.Call
		if reached := record.Number(item.Revision) <= t.lowest(d.Call); d.Return < before && (written || reached && record.Number(item.Revision) > 0) {
			return d
		}
	}
	return nil
}

// shareRevisions gives the writes of one transaction the version of any of them.
func (t *Timeline) shareRevisions() {
	revisions := map[string]uint64{}
	for _, w := range t.Writes {
		if w.Op.Transaction != "" && w.Revision > 0 {
			revisions[w.Op.Transaction] = w.Revision
		}
	}
	for _, w := range t.Writes {
		if w.Revision == 0 && w.Op.Transaction != "" {
			w.Revision = revisions[w.Op.Transaction]
		}
	}
}

// NewestBefore returns the write of the highest version that was acknowledged before a
// time.
func (t *Timeline) NewestBefore(at record.Nanos) *Write {
	if m := t.reached.Before(at); m != nil {
		return m.By
	}
	return nil
}
