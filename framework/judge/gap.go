package judge

import (
	"fmt"
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

// judgeGaps holds the gaps of every entrance between from and to against the bound. It
// returns the longest, and no problem where none is longer than that. An entrance that
// fails is found before one of which nothing can be said.
func judgeGaps(m *matter, entrances []string, from, to record.Nanos) (worst gap, problem *finding) {
	limit := m.bound.Limit
	var vain gap
	var open *finding
	for _, e := range entrances {
		longest, proven, acks := longestGap(m.run, e, from, to)
		if longest.length() > worst.length() || worst.entrance == "" {
			worst = longest
		}
		if proven.proven() > limit && proven.length() > vain.length() {
			vain = proven
		}
		var f finding
		switch {
		case open != nil:
			continue
		case longest.asked == longest.to && longest.length() > limit:
			f = inconclusive("no write was tried through %s from %s for %s, so nothing can be said of it", e, when(longest.from), short(longest.length()))
		case longest.length() > limit:
			f = inconclusive("no write was tried through %s from %s until %s, and none was acknowledged until %s, so nothing can be said of the time before",
				e, when(longest.from), when(longest.asked), when(longest.to))
		case acks == 0:
			f = inconclusive("no write through %s was acknowledged before the fault was healed after %s, which is less than the bound of %s",
				e, short(time.Duration(to-from)), m.bound)
		default:
			continue
		}
		open = &f
	}
	if vain.entrance != "" {
		f := failed("Writes through surviving API servers must resume within %s of the %s: through %s, no write was acknowledged for %s (%s to %s).",
			m.bound, m.fault.what(), vain.entrance, short(vain.length()), when(vain.from), when(vain.to)).
			took(vain.length()).rests(from, vain.to)
		return vain, &f
	}
	return worst, open
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

// enoughAttempts is how many writes, and how many quorum reads, must have been tried through
// each entrance before it can be said that none had an effect.
const enoughAttempts = 10

// attempts counts what was tried through each entrance between from and to. Too little of it
// is a problem.
func (m *matter) attempts(entrances []string, from, to record.Nanos) (counts string, problem *finding) {
	var all []string
	for _, e := range entrances {
		_, writes := acknowledgedWithin(m.run, []string{e}, from, to)
		reads := len(readsThrough(m.run, e, from, to))
		all = append(all, fmt.Sprintf("%s and %s through %s", plural(writes, "write"), plural(reads, "quorum read"), e))
		if problem == nil && min(writes, reads) < enoughAttempts {
			f := inconclusive("%s were tried from %s to %s, and it takes %d of each to say anything", all[len(all)-1], when(from), when(to), enoughAttempts)
			problem = &f
		}
	}
	return and(all), problem
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
