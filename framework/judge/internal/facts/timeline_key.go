package facts

import (
	"cmp"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// newKeyLine combines what is known of a key: writes are all that were not refused, old is its
// state before the record, seen are the versions at which a watch showed it as deleted.
func newKeyLine(key string, writes []*Write, old []KeyChange, seen []sightOf, disputed bool) *KeyLine {
	l := &KeyLine{key: key, Changes: old, Disputed: disputed}
	var hidden, deletes []*Write // without a known place
	for _, w := range writes {
		switch {
		case w.Deletes():
			deletes = append(deletes, w)
		case w.Revision > 0:
			l.Changes = append(l.Changes, KeyChange{VersionOf: VersionOf{key, w.Revision}, Present: true, Value: w.Op.Value, Group: w.Group, By: w})
		default:
			hidden = append(hidden, w)
		}
	}
	l.sort()
	for _, w := range writes {
		if w.Revision == 0 {
			l.narrow(w)
		}
	}
	left, rest := l.numbered(l.unclear(distinct(seen), hidden), deletes, &hidden)
	l.match(left, rest, &hidden)
	l.sort()
	for i := 1; i < len(l.Changes); i++ {
		if l.Changes[i].Revision == l.Changes[i-1].Revision {
			l.Disputed = true
		}
	}
	for _, w := range hidden {
		l.narrow(w)
	}
	hidden = slices.DeleteFunc(hidden, func(w *Write) bool { return w.before <= w.after+1 })
	slices.SortFunc(hidden, func(a, b *Write) int { return cmp.Compare(a.after, b.after) })
	l.weigh(hidden)
	l.countVersions()
	return l
}

func (l *KeyLine) sort() {
	slices.SortStableFunc(l.Changes, func(a, b KeyChange) int { return cmp.Compare(a.Revision, b.Revision) })
}

// narrow uses that a compare-and-swap can only come right after what it compared with.
func (l *KeyLine) narrow(w *Write) {
	if e := w.expect(); e > 0 {
		w.after = max(w.after, e)
		i := sort.Search(len(l.Changes), func(i int) bool { return l.Changes[i].Revision > e })
		if i < len(l.Changes) {
			w.before = min(w.before, l.Changes[i].Revision)
		}
	}
}

// distinct returns the sightings sorted, one for each version; those of a watch of all groups are
// preferred.
func distinct(seen []sightOf) []sightOf {
	slices.SortFunc(seen, func(a, b sightOf) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.group, b.group))
	})
	return slices.CompactFunc(seen, func(a, b sightOf) bool { return a.Revision == b.Revision })
}

// unclear finds what a watch showed as deleted although it was, or may have been, something else:
// an object that left a group.
func (l *KeyLine) unclear(seen []sightOf, hidden []*Write) []sightOf {
	var kept []sightOf
	for _, s := range seen {
		_, put := l.Find(s.Revision)
		leaves := slices.ContainsFunc(hidden, func(w *Write) bool {
			return s.group != "" && w.Group != s.group && w.after < s.Revision && s.Revision < w.before
		})
		switch {
		case put:
		case leaves:
			l.Changes = append(l.Changes, KeyChange{VersionOf: s.VersionOf, unclear: true})
		default:
			kept = append(kept, s)
		}
	}
	l.sort()
	return kept
}

// numbered places the deletions whose version their client received. etcd returns a version even
// if there was nothing to delete. It returns the other deletions, and the sightings that the
// placed ones do not explain.
func (l *KeyLine) numbered(seen []sightOf, deletes []*Write, hidden *[]*Write) (left []sightOf, rest []*Write) {
	deletes = slices.Clone(deletes)
	slices.SortStableFunc(deletes, func(a, b *Write) int { return cmp.Compare(a.Revision, b.Revision) })
	n, _ := slices.BinarySearchFunc(deletes, 1, func(w *Write, r uint64) int { return cmp.Compare(w.Revision, r) })
	rest, deletes = deletes[:n], deletes[n:]
	doubtful := slices.Concat(*hidden, rest)
	puts, done := l.Changes, []KeyChange(nil)
	for _, w := range deletes {
		for len(puts) > 0 && puts[0].Revision < w.Revision {
			done, puts = append(done, puts[0]), puts[1:]
		}
		w.after, w.before = w.Revision-1, w.Revision+1
		i, isSeen := slices.BinarySearchFunc(seen, w.Revision, func(s sightOf, r uint64) int { return cmp.Compare(s.Revision, r) })
		from, present := uint64(0), false
		if len(done) > 0 {
			from, present = done[len(done)-1].Revision, done[len(done)-1].Present
		}
		between := func(o *Write) bool { return o.after+1 < w.Revision && o.before > from+1 }
		switch {
		case from == w.Revision || len(puts) > 0 && puts[0].Revision == w.Revision:
		case isSeen:
			done = append(done, KeyChange{VersionOf: VersionOf{l.key, w.Revision}, By: w})
		case from == 0 || i > 0 && seen[i-1].Revision > from || slices.ContainsFunc(doubtful, between):
			*hidden = append(*hidden, w)
		case present:
			done = append(done, KeyChange{VersionOf: VersionOf{l.key, w.Revision}, By: w})
		}
	}
	l.Changes = append(done, puts...)
	left = slices.DeleteFunc(slices.Clone(seen), func(s sightOf) bool {
		_, found := l.Find(s.Revision)
		return found
	})
	return left, rest
}

// match places deletions of unknown version by what watches showed as deleted. If there are more
// candidates than deletions, the others may have been at any time. A sighting that no client can
// have deleted is left out: it is not a fact.
func (l *KeyLine) match(seen []sightOf, deletes []*Write, hidden *[]*Write) {
	type span struct {
		w        *Write
		from, to int // of seen
	}
	var spans []span
	var unseen []*Write
	for _, w := range deletes {
		from := sort.Search(len(seen), func(i int) bool { return seen[i].Revision > w.after })
		to := sort.Search(len(seen), func(i int) bool { return seen[i].Revision >= w.before })
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
			c := KeyChange{VersionOf: seen[k].VersionOf}
			if c.By = spans[i].w; j-i == to-from {
				c.By = spans[i+k-from].w
			}
			l.Changes = append(l.Changes, c)
		}
		if j-i > to-from {
			for _, s := range spans[i:j] {
				*hidden = append(*hidden, s.w)
			}
		}
		i = j
	}
}

// unseen places deletions that no watch showed as well as possible: an acknowledged one had taken
// effect before later writes, and was the only change in its time.
func (l *KeyLine) unseen(deletes []*Write, hidden *[]*Write) {
	slices.SortStableFunc(deletes, func(a, b *Write) int { return cmp.Compare(a.after, b.after) })
	known, last := l.Changes, uint64(0)
	for _, w := range deletes {
		i := sort.Search(len(known), func(i int) bool { return known[i].Revision > w.after })
		alone := i == len(known) || known[i].Revision >= w.before
		was := i > 0 && known[i-1].Present && known[i-1].Revision > last
		if w.Op.Outcome != record.OK || w.before == NoVersion || w.before <= w.after+1 || !alone || !was {
			*hidden = append(*hidden, w)
			continue
		}
		last = w.before - 1
		l.Changes = append(l.Changes, KeyChange{VersionOf: VersionOf{l.key, last}, By: w, late: true})
	}
}

// weigh finds where the key may have changed without being seen. hidden is sorted by after.
func (l *KeyLine) weigh(hidden []*Write) {
	l.doubt = make([]uint64, len(l.Changes)+1)
	next := 0
	var open []*Write // that may have taken effect in the gap
	for i := range l.doubt {
		low, high := uint64(0), uint64(NoVersion)
		if i > 0 {
			low = l.Changes[i-1].Revision
		}
		if i < len(l.Changes) {
			high = l.Changes[i].Revision
		}
		for ; next < len(hidden) && hidden[next].after < high; next++ {
			open = append(open, hidden[next])
		}
		// Of writes that may take effect at any later time, one of each type is enough.
		endless := map[record.OpType]bool{}
		open = slices.DeleteFunc(open, func(w *Write) bool {
			if w.before == NoVersion && w.after <= low {
				again := endless[w.Op.Type]
				endless[w.Op.Type] = true
				return again
			}
			return w.before <= low+1
		})
		l.doubt[i] = l.doubtIn(i, low, high, open)
	}
}

// doubtIn examines the gap before change i, between two versions.
func (l *KeyLine) doubtIn(i int, low, high uint64, open []*Write) uint64 {
	var last, next *KeyChange
	if i > 0 {
		last = &l.Changes[i-1]
	}
	if i < len(l.Changes) {
		next = &l.Changes[i]
	}
	switch {
	case last == nil && (next == nil || next.By == nil || next.By.Op.Type != record.OpCreate):
		return 1 // the state before the record is not known
	case last != nil && last.unclear:
		return low
	case next != nil && next.By != nil && !next.late && last != nil && next.By.expect() == low:
		return 0 // it came right after
	}
	present := last != nil && last.Present
	creates, deletes := false, false
	for _, w := range open {
		creates = creates || w.creates()
		deletes = deletes || w.Deletes()
	}
	lowest := uint64(0)
	doubt := func(from uint64) {
		if lowest == 0 || from < lowest {
			lowest = from
		}
	}
	for _, w := range open {
		from := max(w.after, low) + 1
		possible := w.Op.Type == record.OpPut || w.fitsPresent() && (present || creates) || w.creates() && (!present || deletes)
		if possible && from < min(w.before, high) {
			doubt(from)
		}
	}
	if next != nil && next.By != nil {
		w := next.By
		fits := w.Op.Type == record.OpPut || present == w.fitsPresent()
		if e := w.expect(); !fits || e > 0 && e != low {
			doubt(low + 1) // there must have been a change in between
		}
		if next.late {
			doubt(max(w.after, low) + 1)
		}
	}
	return lowest
}

// countVersions computes since when each key exists, and in which version of its own.
func (l *KeyLine) countVersions() {
	for i := range l.Changes {
		c := &l.Changes[i]
		if !c.Present || !l.Sure(i) {
			continue
		}
		if p := l.Before(i); p == nil {
			c.Created, c.Count = c.Revision, 1
		} else if p.Created > 0 {
			c.Created, c.Count = p.Created, p.Count+1
		}
	}
}
