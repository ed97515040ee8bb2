package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// gap is a time without an acknowledged write through an entrance.
type gap struct {
	entrance string
	from, to record.Nanos
	// asked is when the first write of the gap was called, its end where there is none:
	// before that, nothing is known of the cluster.
	asked record.Nanos
}

func (g gap) length() time.Duration { return time.Duration(g.to - g.from) }

// proven is how long writes were asked for in vain.
func (g gap) proven() time.Duration { return time.Duration(g.to - g.asked) }

// longestGap returns the longest time between from and to in which no write through the
// entrance was acknowledged, the one in which writes were asked for in vain for longest,
// and how many were acknowledged. Writes that were called before from do not count:
// their acknowledgement may be of before.
func longestGap(run *record.Run, entrance string, from, to record.Nanos) (longest, proven gap, acks int) {
	var calls, ends []record.Nanos
	for _, w := range writesThrough(run, entrance) {
		if w.call < from || w.call >= to {
			continue
		}
		calls = append(calls, w.call)
		if w.ok && w.ret <= to {
			ends = append(ends, w.ret)
		}
	}
	slices.Sort(ends)
	longest = gap{entrance, from, from, from}
	proven = longest
	begin := from
	for _, end := range append(ends, to) {
		g := gap{entrance, begin, end, end}
		if i, _ := slices.BinarySearch(calls, begin); i < len(calls) {
			g.asked = min(calls[i], end)
		}
		if g.length() > longest.length() {
			longest = g
		}
		if g.proven() > proven.proven() {
			proven = g
		}
		begin = end
	}
	return longest, proven, len(ends)
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
