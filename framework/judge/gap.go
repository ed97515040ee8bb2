package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// gap is the longest time without an acknowledged write through an entrance.
type gap struct {
	entrance string
	from, to record.Nanos
	// tried tells whether a write was begun in the gap: without one, the gap
	// says nothing about the cluster.
	tried bool
	// open tells that no write was acknowledged between the gap and the end of
	// the time looked at.
	open bool
	acks int
}

func (g gap) length() time.Duration { return time.Duration(g.to - g.from) }

// longestGap returns the longest time between from and to in which no write
// through the entrance was acknowledged. Writes that were called before from do
// not count: their acknowledgement may be of before.
func longestGap(run *record.Run, entrance string, from, to record.Nanos) gap {
	var calls, acks []record.Nanos
	for _, w := range writesThrough(run, entrance) {
		if w.call < from || w.call >= to {
			continue
		}
		calls = append(calls, w.call)
		if w.ok && w.ret <= to {
			acks = append(acks, w.ret)
		}
	}
	slices.Sort(acks)
	worst := gap{entrance: entrance, from: from, to: from, acks: len(acks)}
	begin := from
	for _, ack := range append(acks, to) {
		if ack-begin > worst.to-worst.from {
			worst.from, worst.to = begin, ack
		}
		begin = ack
	}
	worst.open = worst.to == to && (len(acks) == 0 || acks[len(acks)-1] == worst.from)
	i, _ := slices.BinarySearchFunc(calls, worst.from, cmp.Compare)
	worst.tried = i < len(calls) && calls[i] < worst.to
	return worst
}

// judgeGaps holds the longest gap of every entrance between from and to
// against the bound. It returns nil where none is longer, with the worst.
func judgeGaps(m *matter, entrances []string, from, to record.Nanos) (worst gap, problem *finding) {
	limit := m.bound.Limit
	for _, e := range entrances {
		g := longestGap(m.run, e, from, to)
		if g.length() > worst.length() || worst.entrance == "" {
			worst = g
		}
	}
	for _, e := range entrances {
		g := longestGap(m.run, e, from, to)
		switch {
		case g.length() > limit && !g.tried:
			f := inconclusive("no write was tried through %s from %s for %s, so nothing can be said of it", e, when(g.from), short(g.length()))
			return g, &f
		case g.acks == 0 && g.length() <= limit:
			f := inconclusive("no write through %s was acknowledged before the fault was healed after %s, which is less than the bound of %s",
				e, short(time.Duration(to-from)), m.bound)
			return g, &f
		}
	}
	if worst.length() > limit {
		f := failed("Writes through surviving API servers must resume within %s of the %s: through %s, no write was acknowledged for %s (%s to %s).",
			m.bound, m.fault.what(), worst.entrance, short(worst.length()), when(worst.from), when(worst.to)).
			took(worst.length()).rests(from, worst.to)
		return worst, &f
	}
	return worst, nil
}

// acknowledgedWithin returns the first write through any of the entrances that
// was called at or after from and acknowledged before to, and how many were
// tried.
func acknowledgedWithin(run *record.Run, entrances []string, from, to record.Nanos) (first *attempt, tried int) {
	for _, e := range entrances {
		for _, w := range writesThrough(run, e) {
			if w.call < from || w.call >= to {
				continue
			}
			tried++
			if w.ok && w.ret < to && (first == nil || w.ret < first.ret) {
				first = &w
			}
		}
	}
	return first, tried
}

// staleRead returns the first quorum read through any of the entrances between
// from and to that was older than an acknowledged write, with that write, and
// how many reads were tried.
func staleRead(run *record.Run, entrances []string, from, to record.Nanos) (read, write *record.Op, tried int) {
	known := newLedger(run)
	for _, e := range entrances {
		for _, r := range readsThrough(run, e, from, to) {
			tried++
			if r.Outcome != record.OK || r.Return >= to {
				continue
			}
			if w := known.staleAgainst(r); w != nil && (read == nil || r.Call < read.Call) {
				read, write = &r, w
			}
		}
	}
	return read, write, tried
}
