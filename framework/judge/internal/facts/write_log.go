package facts

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// WriteLog has the writes of a record by API and key.
type WriteLog map[string]*account

// account holds the writes of one key that had an effect or may have had one.
type account struct {
	Writes  []record.Op            // by their calls
	Sources map[string][]record.Op // of a value
	deletes Intervals
}

func LoggedKey(op record.Op) string { return op.API + "\x00" + op.Key }

func NewWriteLog(run *record.Run) WriteLog {
	var writes []record.Op
	for _, o := range run.Ops {
		if op := o.V; IsWrite(op.Type) && op.Purpose != "ready" {
			writes = append(writes, op)
		}
	}
	return newWriteLog(writes)
}

func newWriteLog(writes []record.Op) WriteLog {
	l := WriteLog{}
	for _, op := range writes {
		if op.Outcome != record.Refused {
			a := l.Of(op)
			a.Writes = append(a.Writes, op)
			l[LoggedKey(op)] = a
		}
	}
	for _, a := range l {
		slices.SortStableFunc(a.Writes, func(a, b record.Op) int { return cmp.Compare(a.Call, b.Call) })
		for _, w := range a.Writes {
			if w.Type != record.OpDelete {
				a.Sources[w.Value] = append(a.Sources[w.Value], w)
				continue
			}
			ret := int64(w.Return)
			if w.Outcome != record.OK {
				ret = Never
			}
			a.deletes = a.deletes.Add(int64(w.Call), ret)
		}
	}
	return l
}

// Of returns the account of an operation's key, an empty one if no client wrote it.
func (l WriteLog) Of(op record.Op) *account {
	if a := l[LoggedKey(op)]; a != nil {
		return a
	}
	return &account{Sources: map[string][]record.Op{}}
}

// StaleAgainst returns an acknowledged write that the read should have seen
// and that is newer than what it returned: one that was acknowledged before
// the read was called. It returns the newest such write, or nil.
func (l WriteLog) StaleAgainst(read record.Op) *record.Op {
	return newestBefore(l.Of(read).Writes, read, func(w record.Op) bool { return l.Older(read, w) })
}

// newestBefore returns the last write that holds accepts and that was acknowledged before the
// read was called; nil if there is none.
func newestBefore(writes []record.Op, read record.Op, holds func(record.Op) bool) (newest *record.Op) {
	for i := range writes {
		w := &writes[i]
		if w.Outcome == record.OK && w.Return < read.Call && (newest == nil || w.Return > newest.Return) && holds(*w) {
			newest = w
		}
	}
	return newest
}

// Older reports whether the value that a read returned had certainly been replaced before the
// read was called, by another operation on its key that had ended: an acknowledged write, or an
// earlier read, which shows an earlier write.
func (l WriteLog) Older(read, earlier record.Op) bool {
	absent := earlier.Type == record.OpDelete || earlier.Type == record.OpGet && !earlier.Found
	if !read.Found {
		mayBeDeleted := l.Of(read).deletes.Within(int64(earlier.Call), int64(read.Return))
		return !absent && !mayBeDeleted
	}
	switch is, was := record.Number(read.Revision), record.Number(earlier.Revision); {
	case is > 0 && was > 0:
		return is < was
	case !absent && read.Value == earlier.Value:
		return false
	}
	return l.Before(read, earlier.Call)
}

// Before reports whether the value that a read returned was certainly written before a time. A
// write of unknown outcome may have taken effect at any later time.
func (l WriteLog) Before(read record.Op, t record.Nanos) bool {
	sources := l.Of(read).Sources[read.Value]
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(w record.Op) bool {
		return w.Outcome != record.OK || w.Return >= t
	})
}

func WrittenAs(w *record.Op) string {
	if w.Type == record.OpDelete {
		return "its deletion"
	}
	return text.Quoted(w.Value, true)
}

const Never = math.MaxInt64 // when an operation of unknown outcome returns

// Intervals are times of operations in the order of their calls, each with the
// latest return up to it.
type Intervals []struct{ call, ret int64 }

func (l Intervals) Add(call, ret int64) Intervals {
	if n := len(l); n > 0 {
		ret = max(ret, l[n-1].ret)
	}
	return append(l, struct{ call, ret int64 }{call, ret})
}

// Within reports whether any was under way at some time between from and to.
func (l Intervals) Within(from, to int64) bool {
	n := sort.Search(len(l), func(i int) bool { return l[i].call > to })
	return n > 0 && l[n-1].ret >= from
}
