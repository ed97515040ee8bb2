package judge

import (
	"cmp"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// newKeyLine puts together what is known of a key: writes are all that were not
// refused, old is what was there before the record, seen are the versions at which a
// watch showed it as deleted.
func newKeyLine(key string, writes []*write, old []keyChange, seen []sightOf, disputed bool) *keyLine {
	l := &keyLine{key: key, changes: old, disputed: disputed}
	var hidden, deletes []*write // that nothing places
	for _, w := range writes {
		switch {
		case w.deletes():
			deletes = append(deletes, w)
		case w.revision > 0:
			l.changes = append(l.changes, keyChange{versionOf: versionOf{key, w.revision}, present: true, value: w.op.Value, group: w.group, by: w})
		default:
			hidden = append(hidden, w)
		}
	}
	l.sort()
	for _, w := range writes {
		if w.revision == 0 {
			l.narrow(w)
		}
	}
	seen = l.unclear(distinct(seen), hidden)
	rest := l.numbered(&seen, deletes, &hidden)
	l.match(seen, rest, &hidden)
	l.sort()
	for i := 1; i < len(l.changes); i++ {
		if l.changes[i].revision == l.changes[i-1].revision {
			l.disputed = true
		}
	}
	for _, w := range hidden {
		l.narrow(w)
	}
	hidden = slices.DeleteFunc(hidden, func(w *write) bool { return w.before <= w.after+1 })
	slices.SortFunc(hidden, func(a, b *write) int { return cmp.Compare(a.after, b.after) })
	l.weigh(hidden)
	l.countVersions()
	return l
}

func (l *keyLine) sort() {
	slices.SortStableFunc(l.changes, func(a, b keyChange) int { return cmp.Compare(a.revision, b.revision) })
}

// narrow uses that a compare-and-swap can only come right after what it compared with.
func (l *keyLine) narrow(w *write) {
	if e := w.expect(); e > 0 {
		w.after = max(w.after, e)
		i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision > e })
		if i < len(l.changes) {
			w.before = min(w.before, l.changes[i].revision)
		}
	}
}

// distinct returns the sightings sorted, one for each version; one that a watch of
// all groups made is preferred.
func distinct(seen []sightOf) []sightOf {
	slices.SortFunc(seen, func(a, b sightOf) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.group, b.group))
	})
	return slices.CompactFunc(seen, func(a, b sightOf) bool { return a.revision == b.revision })
}

// unclear sorts out what a watch showed as deleted and was, or may have been,
// something else: an object that left a group.
func (l *keyLine) unclear(seen []sightOf, hidden []*write) []sightOf {
	var kept []sightOf
	for _, s := range seen {
		_, put := l.find(s.revision)
		leaves := slices.ContainsFunc(hidden, func(w *write) bool {
			return s.group != "" && w.group != s.group && w.after < s.revision && s.revision < w.before
		})
		switch {
		case put:
		case leaves:
			l.changes = append(l.changes, keyChange{versionOf: s.versionOf, unclear: true})
		default:
			kept = append(kept, s)
		}
	}
	l.sort()
	return kept
}

// numbered places the deletions whose version their client was told. etcd tells a
// version also where there was nothing to delete. It returns the other ones.
func (l *keyLine) numbered(seen *[]sightOf, deletes []*write, hidden *[]*write) (rest []*write) {
	deletes = slices.Clone(deletes)
	slices.SortStableFunc(deletes, func(a, b *write) int { return cmp.Compare(a.revision, b.revision) })
	for _, w := range deletes {
		if w.revision == 0 {
			rest = append(rest, w)
		}
	}
	for _, w := range deletes {
		if w.revision == 0 {
			continue
		}
		w.after, w.before = w.revision-1, w.revision+1
		if i, found := slices.BinarySearchFunc(*seen, w.revision, func(s sightOf, r uint64) int { return cmp.Compare(s.revision, r) }); found {
			*seen = slices.Delete(*seen, i, i+1)
			l.insert(keyChange{versionOf: versionOf{l.key, w.revision}, by: w})
			continue
		}
		i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision >= w.revision })
		from := uint64(0)
		if i > 0 {
			from = l.changes[i-1].revision
		}
		between := func(o *write) bool { return o.after+1 < w.revision && o.before > from+1 }
		switch {
		case i < len(l.changes) && l.changes[i].revision == w.revision:
		case i == 0 || slices.ContainsFunc(*hidden, between) || slices.ContainsFunc(rest, between) ||
			slices.ContainsFunc(*seen, func(s sightOf) bool { return from < s.revision && s.revision < w.revision }):
			*hidden = append(*hidden, w)
		case l.changes[i-1].present:
			l.insert(keyChange{versionOf: versionOf{l.key, w.revision}, by: w})
		}
	}
	return rest
}

func (l *keyLine) insert(c keyChange) {
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision >= c.revision })
	l.changes = slices.Insert(l.changes, i, c)
}

// match places deletions of unknown version by what watches showed as deleted. Where
// there are more candidates than deletions, the others may have been at any time.
// What nobody can have deleted is left out: it is no fact.
func (l *keyLine) match(seen []sightOf, deletes []*write, hidden *[]*write) {
	type span struct {
		w        *write
		from, to int // of seen
	}
	var spans []span
	for _, w := range deletes {
		from := sort.Search(len(seen), func(i int) bool { return seen[i].revision > w.after })
		to := sort.Search(len(seen), func(i int) bool { return seen[i].revision >= w.before })
		if from >= to {
			l.unseenDeletion(w, hidden)
			continue
		}
		spans = append(spans, span{w, from, to})
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.w.before, b.w.before))
	})
	for i := 0; i < len(spans); {
		from, to, j := spans[i].from, spans[i].to, i+1
		for ; j < len(spans) && spans[j].from < to; j++ {
			to = max(to, spans[j].to)
		}
		for k := from; k < to; k++ {
			c := keyChange{versionOf: seen[k].versionOf}
			if c.by = spans[i].w; j-i == to-from {
				c.by = spans[i+k-from].w
			}
			l.changes = append(l.changes, c)
		}
		if j-i > to-from {
			for _, s := range spans[i:j] {
				*hidden = append(*hidden, s.w)
			}
		}
		i = j
	}
}

// unseenDeletion places a deletion that no watch showed as well as can be.
func (l *keyLine) unseenDeletion(w *write, hidden *[]*write) {
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision > w.after })
	alone := i == len(l.changes) || l.changes[i].revision >= w.before
	if w.op.Outcome != record.OK || w.before == noVersion || w.before <= w.after+1 || !alone || i == 0 || !l.changes[i-1].present {
		*hidden = append(*hidden, w)
		return
	}
	l.insert(keyChange{versionOf: versionOf{l.key, w.before - 1}, by: w, late: true})
}

// weigh finds out where the key may have changed without being seen. hidden is sorted
// by after.
func (l *keyLine) weigh(hidden []*write) {
	l.doubt = make([]uint64, len(l.changes)+1)
	next := 0
	var open []*write // that may have taken effect in the gap
	for i := range l.doubt {
		low, high := uint64(0), uint64(noVersion)
		if i > 0 {
			low = l.changes[i-1].revision
		}
		if i < len(l.changes) {
			high = l.changes[i].revision
		}
		for ; next < len(hidden) && hidden[next].after < high; next++ {
			open = append(open, hidden[next])
		}
		open = slices.DeleteFunc(open, func(w *write) bool { return w.before <= low+1 })
		l.doubt[i] = l.doubtIn(i, low, high, open)
	}
}

// doubtIn weighs the gap before change i, between two versions.
func (l *keyLine) doubtIn(i int, low, high uint64, open []*write) uint64 {
	var last, next *keyChange
	if i > 0 {
		last = &l.changes[i-1]
	}
	if i < len(l.changes) {
		next = &l.changes[i]
	}
	switch {
	case last == nil && (next == nil || next.by == nil || next.by.op.Type != record.OpCreate):
		return 1 // what was there before the record is not known
	case last != nil && last.unclear:
		return low
	case next != nil && next.by != nil && !next.late && last != nil && next.by.expect() == low:
		return 0 // it came right after
	}
	present := last != nil && last.present
	creates, deletes := false, false
	for _, w := range open {
		creates = creates || w.creates()
		deletes = deletes || w.deletes()
	}
	lowest := uint64(0)
	doubt := func(from uint64) {
		if lowest == 0 || from < lowest {
			lowest = from
		}
	}
	for _, w := range open {
		from := max(w.after, low) + 1
		possible := w.op.Type == record.OpPut || w.fitsPresent() && (present || creates) || w.creates() && (!present || deletes)
		if possible && from < min(w.before, high) {
			doubt(from)
		}
	}
	if next != nil && next.by != nil {
		w := next.by
		fits := w.op.Type == record.OpPut || present == w.fitsPresent()
		if e := w.expect(); !fits || e > 0 && e != low {
			doubt(low + 1) // something must have come between
		}
		if next.late {
			doubt(max(w.after, low) + 1)
		}
	}
	return lowest
}

// countVersions works out since when each key is there, and in which version of its
// own.
func (l *keyLine) countVersions() {
	for i := range l.changes {
		c := &l.changes[i]
		if !c.present || !l.sure(i) {
			continue
		}
		if p := l.before(i); p == nil {
			c.created, c.count = c.revision, 1
		} else if p.created > 0 {
			c.created, c.count = p.created, p.count+1
		}
	}
}
