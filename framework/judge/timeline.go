package judge

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// noVersion is a version that no change has.
const noVersion = math.MaxUint64

// versionOf names one change: no two changes of a key have the same version.
type versionOf struct {
	key      string
	revision uint64
}

// write is an operation that changed a key, or may have.
type write struct {
	op *record.Op
	// revision is the version that it made, 0 where nothing tells it.
	revision uint64
	// group is that of the key after it.
	group string
	// Where it took effect, it did so after version after and before version before.
	after, before uint64
}

func (w *write) deletes() bool { return w.op.Type == record.OpDelete }

// creates tells whether the write can make a key that is not there.
func (w *write) creates() bool { return w.op.Type == record.OpCreate || w.op.Type == record.OpPut }

// fitsPresent tells whether the write can change a key that is there.
func (w *write) fitsPresent() bool { return w.op.Type != record.OpCreate }

// expect is the version that the write replaced, 0 where it named none.
func (w *write) expect() uint64 { return number(w.op.Expect) }

// keyChange is one known change of a key.
type keyChange struct {
	versionOf
	present      bool
	value, group string
	// by is who did it; nil for what was there before the record began.
	by *write
	// late marks a deletion whose version nothing tells: it took effect by revision.
	late bool
	// unclear marks a change of which it is not known what it left.
	unclear bool
	// created and count are the version that created the key and the number of
	// changes since, the creation included, where they are known.
	created uint64
	count   int64
}

// keyLine is what is known of one key.
type keyLine struct {
	key     string
	changes []keyChange // in the order of their versions
	// doubt[i] is the lowest version between changes i-1 and i at which the key may
	// have changed without being seen; 0 for none.
	doubt []uint64
	// disputed marks a key of which the record contradicts itself.
	disputed bool
}

// at returns the change that a key stood at in a version, nil for absent.
func (l *keyLine) at(revision uint64) (c *keyChange, known bool) {
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision > revision })
	if l.disputed || l.doubt[i] > 0 && revision >= l.doubt[i] {
		return nil, false
	}
	if i == 0 || !l.changes[i-1].present {
		return nil, true
	}
	return &l.changes[i-1], true
}

// sure tells whether it is known what the key was right before a change.
func (l *keyLine) sure(i int) bool { return !l.disputed && l.doubt[i] == 0 }

// before returns what the key was right before a change, nil for absent.
func (l *keyLine) before(i int) *keyChange {
	if i == 0 || !l.changes[i-1].present {
		return nil
	}
	return &l.changes[i-1]
}

// find returns the place of the change of a version.
func (l *keyLine) find(revision uint64) (int, bool) {
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision >= revision })
	return i, i < len(l.changes) && l.changes[i].revision == revision && !l.changes[i].late && !l.changes[i].unclear
}

// pairOf is a key with a value. Values are unique, so it names a write.
type pairOf struct{ key, value string }

// timeline is what is known of the keys of one collection: who changed them to what,
// in which version, and where that is not known. It is put together from
// acknowledged writes, and from writes of unknown outcome whose value a read, a list
// or an event shows.
type timeline struct {
	api, collection string
	lines           map[string]*keyLine
	keys            []string // sorted
	writes          []*write
	byValue         map[pairOf]*write
	refused         map[pairOf]*record.Op
	// first is the lowest version that an acknowledged write made.
	first uint64
	// made are the writes by the version that they made, as their clients were told.
	made map[uint64]*write
	// removals are acknowledged deletions by key.
	removals map[string][]*record.Op
	// deletions are versions at which a watch showed a key as deleted, and strangers
	// are values that nobody in the record wrote.
	deletions map[string][]sightOf
	strangers map[versionOf]sightOf
	disputed  map[string]bool
	// returns and calls bound the versions of writes by time; see bounds.
	returns, calls []bound
	scopes         map[scope][]expectation
}

// sightOf is a version that was seen, by a watch of a group where that is set.
type sightOf struct {
	versionOf
	value, group string
}

// bound says that at some time a version was reached, or not yet.
type bound struct {
	at       record.Nanos
	revision uint64
}

func newTimeline(api, collection string) *timeline {
	return &timeline{
		api: api, collection: collection, lines: map[string]*keyLine{}, byValue: map[pairOf]*write{}, refused: map[pairOf]*record.Op{},
		first: noVersion, made: map[uint64]*write{}, removals: map[string][]*record.Op{}, deletions: map[string][]sightOf{}, strangers: map[versionOf]sightOf{}, disputed: map[string]bool{}, scopes: map[scope][]expectation{},
	}
}

// add takes a write into account.
func (t *timeline) add(op *record.Op) {
	pair := pairOf{op.Key, op.Value}
	if op.Outcome == record.Refused {
		t.refused[pair] = op
		return
	}
	w := &write{op: op, group: op.Group, before: noVersion}
	if op.Outcome == record.OK {
		w.revision = number(op.Revision)
	}
	t.writes = append(t.writes, w)
	if w.deletes() {
		if op.Outcome == record.OK {
			t.removals[op.Key] = append(t.removals[op.Key], op)
		}
		return
	}
	if t.byValue[pair] != nil {
		t.disputed[op.Key] = true
	}
	t.byValue[pair] = w
	if w.revision > 0 {
		t.first = min(t.first, w.revision)
		t.made[w.revision] = w
		t.returns = append(t.returns, bound{op.Return, w.revision})
		t.calls = append(t.calls, bound{op.Call, w.revision})
	}
}

// sees takes into account that a key had a value in a version.
func (t *timeline) sees(key, value, group string, revision uint64) {
	if revision == 0 {
		return
	}
	w := t.byValue[pairOf{key, value}]
	switch {
	case w == nil:
		id := versionOf{key, revision}
		t.strangers[id] = sightOf{id, value, group}
	case w.revision == 0:
		w.revision = revision
		if w.group == "" {
			w.group = group
		}
	case w.revision != revision && (w.op.Outcome != record.OK || w.op.Revision == ""):
		t.disputed[key] = true
	}
}

// settle puts the lines of the keys together, once all is added and seen.
func (t *timeline) settle() {
	t.sortBounds()
	t.shareRevisions()
	writes := map[string][]*write{}
	for _, w := range t.writes {
		w.after, w.before = t.lowest(w.op.Call), noVersion
		if w.op.Outcome == record.OK {
			w.before = t.highest(w.op.Return)
		}
		writes[w.op.Key] = append(writes[w.op.Key], w)
	}
	old := map[string][]keyChange{}
	for id, s := range t.strangers {
		if id.revision < t.first {
			old[id.key] = append(old[id.key], keyChange{versionOf: id, present: true, value: s.value, group: s.group})
			if writes[id.key] == nil {
				writes[id.key] = []*write{}
			}
		}
	}
	for key, list := range writes {
		t.lines[key] = newKeyLine(key, list, old[key], t.deletions[key], t.disputed[key])
		t.keys = append(t.keys, key)
	}
	slices.Sort(t.keys)
}

// sortBounds prepares lowest and highest.
func (t *timeline) sortBounds() {
	byTime := func(a, b bound) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(t.returns, byTime)
	for i := 1; i < len(t.returns); i++ {
		t.returns[i].revision = max(t.returns[i].revision, t.returns[i-1].revision)
	}
	slices.SortFunc(t.calls, byTime)
	for i := len(t.calls) - 2; i >= 0; i-- {
		t.calls[i].revision = min(t.calls[i].revision, t.calls[i+1].revision)
	}
}

// lowest is a version that was reached before a time: what is called then makes a
// higher one.
func (t *timeline) lowest(at record.Nanos) uint64 {
	i := sort.Search(len(t.returns), func(i int) bool { return t.returns[i].at >= at })
	if i == 0 {
		return 0
	}
	return t.returns[i-1].revision
}

// highest is a version that was not reached before a time: what returned by then
// made a lower one.
func (t *timeline) highest(at record.Nanos) uint64 {
	i := sort.Search(len(t.calls), func(i int) bool { return t.calls[i].at > at })
	if i == len(t.calls) {
		return noVersion
	}
	return t.calls[i].revision
}

// removed returns a deletion that had been acknowledged before a time, and that was called
// when the item was there already: it can be there no longer. Nil where there is none.
func (t *timeline) removed(item record.Item, before record.Nanos) *record.Op {
	for _, d := range t.removals[item.Key] {
		w := t.byValue[pairOf{item.Key, item.Value}]
		written := w != nil && w.op.Outcome == record.OK && w.op.Return < d.Call
		if reached := number(item.Revision) <= t.lowest(d.Call); d.Return < before && (written || reached && number(item.Revision) > 0) {
			return d
		}
	}
	return nil
}

// shareRevisions gives the writes of one transaction the version of any of them.
func (t *timeline) shareRevisions() {
	revisions := map[string]uint64{}
	for _, w := range t.writes {
		if w.op.Transaction != "" && w.revision > 0 {
			revisions[w.op.Transaction] = w.revision
		}
	}
	for _, w := range t.writes {
		if w.revision == 0 && w.op.Transaction != "" {
			w.revision = revisions[w.op.Transaction]
		}
	}
}

// number reads a version; 0 stands for none.
func number(revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newestBefore returns the write of the highest version that was acknowledged before a
// time.
func (t *timeline) newestBefore(at record.Nanos) *write {
	return t.made[t.lowest(at)]
}
