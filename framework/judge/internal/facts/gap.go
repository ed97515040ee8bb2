package facts

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Gap is a period without an acknowledged write, or an answered quorum read, through an entrance.
type Gap struct {
	Entrance string
	From, To record.Nanos
	// Asked is when the first attempt of the gap was called, or its end without one:
	// before that, nothing is known of the cluster.
	Asked record.Nanos
}

func (g Gap) Length() time.Duration { return time.Duration(g.To - g.From) }

// Proven is how long requests were made without success.
func (g Gap) Proven() time.Duration { return time.Duration(g.To - g.Asked) }

// LongestGap returns the longest period between from and to in which no write through the
// entrance was acknowledged, the one in which writes failed for longest, and how many were
// acknowledged. Writes that were called before from do not count: their acknowledgement may be
// from before.
func LongestGap(run *record.Run, entrance string, from, to record.Nanos) (longest, proven Gap, acks int) {
	return longestGap(WritesThrough(run, entrance), entrance, from, to)
}

// LongestUnread is as LongestGap, for quorum reads: the longest period in which they were requested and
// none was answered, and how many were.
func LongestUnread(run *record.Run, entrance string, from, to record.Nanos) (proven Gap, answers int) {
	var all []Attempt
	for _, r := range ReadsThrough(run, entrance, from, to) {
		all = append(all, Attempt{Call: r.Call, Ret: r.Return, OK: r.Outcome == record.OK})
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Entrance == entrance && pr.Kind == record.ProbeQuorumRead {
			all = append(all, Attempt{Call: pr.Start, Ret: pr.End, OK: pr.OK})
		}
	}
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Call, b.Call) })
	_, proven, answers = longestGap(all, entrance, from, to)
	return proven, answers
}

// longestGap takes attempts in the order of their calls.
func longestGap(attempts []Attempt, entrance string, from, to record.Nanos) (longest, proven Gap, acks int) {
	var calls, ends []record.Nanos
	for _, w := range attempts {
		if w.Call < from || w.Call >= to {
			continue
		}
		calls = append(calls, w.Call)
		if w.OK && w.Ret <= to {
			ends = append(ends, w.Ret)
		}
	}
	slices.Sort(ends)
	longest = Gap{entrance, from, from, from}
	proven = longest
	begin := from
	for _, end := range append(ends, to) {
		g := Gap{entrance, begin, end, end}
		if i, _ := slices.BinarySearch(calls, begin); i < len(calls) {
			g.Asked = min(calls[i], end)
		}
		if g.Length() > longest.Length() {
			longest = g
		}
		if g.Proven() > proven.Proven() {
			proven = g
		}
		begin = end
	}
	return longest, proven, len(ends)
}

// AcknowledgedWithin returns the first write through any of the entrances that
// was called at or after from and acknowledged before to, and how many were
// sent.
func AcknowledgedWithin(run *record.Run, entrances []string, from, to record.Nanos) (first *Attempt, sent int) {
	for _, e := range entrances {
		for _, w := range WritesThrough(run, e) {
			if w.Call < from || w.Call >= to {
				continue
			}
			if !w.Unsent {
				sent++
			}
			if w.OK && w.Ret < to && (first == nil || w.Ret < first.Ret) {
				first = &w
			}
		}
	}
	return first, sent
}

// StaleRead returns the first quorum read through any of the entrances between from and to that
// returned a state older than an acknowledged write, with that write.
func StaleRead(run *record.Run, entrances []string, from, to record.Nanos) (read, write *record.Op) {
	known := NewWriteLog(run)
	for _, e := range entrances {
		for _, r := range ReadsThrough(run, e, from, to) {
			if r.Outcome != record.OK || r.Return >= to {
				continue
			}
			if w := known.StaleAgainst(r); w != nil && (read == nil || r.Call < read.Call) {
				read, write = &r, w
			}
		}
	}
	return read, write
}
