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
	left, rest := l.numbered(l.unclear(distinct(seen), hidden), deletes, &hidden)
	l.match(left, rest, &hidden)
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
// version also where there was nothing to delete. It returns the other deletions, and
// what was seen and is not explained by those placed.
func (l *keyLine) numbered(seen []sightOf, deletes []*write, hidden *[]*write) (left []sightOf, rest []*write) {
	deletes = slices.Clone(deletes)
	slices.SortStableFunc(deletes, func(a, b *write) int { return cmp.Compare(a.revision, b.revision) })
	n, _ := slices.BinarySearchFunc(deletes, 1, func(w *write, r uint64) int { return cmp.Compare(w.revision, r) })
	rest, deletes = deletes[:n], deletes[n:]
	doubtful := slices.Concat(*hidden, rest)
	puts, done := l.changes, []keyChange(nil)
	for _, w := range deletes {
		for len(puts) > 0 && puts[0].revision < w.revision {
			done, puts = append(done, puts[0]), puts[1:]
		}
		w.after, w.before = w.revision-1, w.revision+1
		i, isSeen := slices.BinarySearchFunc(seen, w.revision, func(s sightOf, r uint64) int { return cmp.Compare(s.revision, r) })
		from, present := uint64(0), false
		if len(done) > 0 {
			from, present = done[len(done)-1].revision, done[len(done)-1].present
		}
		between := func(o *write) bool { return o.after+1 < w.revision && o.before > from+1 }
		switch {
		case from == w.revision || len(puts) > 0 && puts[0].revision == w.revision:
		case isSeen:
			done = append(done, keyChange{versionOf: versionOf{l.key, w.revision}, by: w})
		case from == 0 || i > 0 && seen[i-1].revision > from || slices.ContainsFunc(doubtful, between):
			*hidden = append(*hidden, w)
		case present:
			done = append(done, keyChange{versionOf: versionOf{l.key, w.revision}, by: w})
		}
	}
	l.changes = append(done, puts...)
	for _, s := range seen {
		if _, found := l.find(s.revision); !found {
			left = append(left, s)
		}
	}
	return left, rest
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
	var unseen []*write
	for _, w := range deletes {
		from := sort.Search(len(seen), func(i int) bool { return seen[i].revision > w.after })
		to := sort.Search(len(seen), func(i int) bool { return seen[i].revision >= w.before })
		if from >= to {
			unseen = append(unseen, w)
			continue
		}
		spans = append(spans, span{w, from, to})
	}
	l.unseen(unseen, hidden)
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

// unseen places deletions that no watch showed as well as can be: one that was
// acknowledged had taken effect before what was written later, and was the only change
// in its time.
func (l *keyLine) unseen(deletes []*write, hidden *[]*write) {
	slices.SortStableFunc(deletes, func(a, b *write) int { return cmp.Compare(a.after, b.after) })
	known, last := l.changes, uint64(0)
	for _, w := range deletes {
		i := sort.Search(len(known), func(i int) bool { return known[i].revision > w.after })
		alone := i == len(known) || known[i].revision >= w.before
		was := i > 0 && known[i-1].present && known[i-1].revision > last
		if w.op.Outcome != record.OK || w.before == noVersion || w.before <= w.after+1 || !alone || !was {
			*hidden = append(*hidden, w)
			continue
		}
		last = w.before - 1
		l.changes = append(l.changes, keyChange{versionOf: versionOf{l.key, last}, by: w, late: true})
	}
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
		// Of writes that may come at any later time, one of each type says it all.
		endless := map[record.OpType]bool{}
		open = slices.DeleteFunc(open, func(w *write) bool {
			if w.before == noVersion && w.after <= low {
				again := endless[w.op.Type]
				endless[w.op.Type] = true
				return again
			}
			return w.before <= low+1
		})
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
