package judge

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// ledger knows the writes of a record by API and key.
type ledger map[string]*account

// account holds the writes of one key that had an effect or may have had one.
type account struct {
	writes  []record.Op            // by their calls
	sources map[string][]record.Op // of a value
	deletes intervals
}

func ledgerKey(op record.Op) string { return op.API + "\x00" + op.Key }

func newLedger(run *record.Run) ledger {
	l := ledger{}
	for _, o := range run.Ops {
		if op := o.V; isWrite(op.Type) && op.Outcome != record.Refused && op.Purpose != "ready" {
			a := l.of(op)
			a.writes = append(a.writes, op)
			l[ledgerKey(op)] = a
		}
	}
	for _, a := range l {
		slices.SortStableFunc(a.writes, func(a, b record.Op) int { return cmp.Compare(a.Call, b.Call) })
		for _, w := range a.writes {
			if w.Type != record.OpDelete {
				a.sources[w.Value] = append(a.sources[w.Value], w)
				continue
			}
			ret := int64(w.Return)
			if w.Outcome != record.OK {
				ret = never
			}
			a.deletes = a.deletes.add(int64(w.Call), ret)
		}
	}
	return l
}

// of returns the account of an operation's key, an empty one where nobody wrote it.
func (l ledger) of(op record.Op) *account {
	if a := l[ledgerKey(op)]; a != nil {
		return a
	}
	return &account{sources: map[string][]record.Op{}}
}

// staleAgainst returns an acknowledged write that the read should have seen
// and that is newer than what it returned: one that was acknowledged before
// the read was called. It returns the newest such write, or nil.
func (l ledger) staleAgainst(read record.Op) *record.Op {
	var newest *record.Op
	writes := l.of(read).writes
	for i := range writes {
		w := &writes[i]
		if w.Outcome == record.OK && w.Return < read.Call && (newest == nil || w.Return > newest.Return) && l.older(read, *w) {
			newest = w
		}
	}
	return newest
}

// older tells whether what a read returned was certainly replaced by w, a write
// that was acknowledged before the read was called.
func (l ledger) older(read, w record.Op) bool {
	switch {
	case !read.Found && w.Type == record.OpDelete:
		return false
	case !read.Found:
		return !l.mayBeDeleted(read, w.Call)
	case w.Type != record.OpDelete && read.Value == w.Value:
		return false
	}
	r, rok := revision(read)
	n, nok := revision(w)
	if rok && nok {
		return r < n
	}
	return l.before(read, w.Call)
}

// before tells whether what a read returned was certainly written before some time.
// A write of unknown outcome may have taken effect at any later one.
func (l ledger) before(read record.Op, t record.Nanos) bool {
	sources := l.of(read).sources[read.Value]
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(w record.Op) bool {
		return w.Outcome != record.OK || w.Return >= t
	})
}

// mayBeDeleted tells whether some delete may have come between a time and the end
// of a read.
func (l ledger) mayBeDeleted(read record.Op, since record.Nanos) bool {
	return l.of(read).deletes.within(int64(since), int64(read.Return))
}

func writtenAs(w *record.Op) string {
	if w.Type == record.OpDelete {
		return "its deletion"
	}
	return quoted(w.Value, true)
}
