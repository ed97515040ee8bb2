package judges

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// move is an operation on a register with the time in which it took effect.
type move struct {
	action
	call, ret int64
	rank      uint64 // the revision of a write
	done      bool
}

// moves resolves the operations of one key by what their clients saw. This only restricts an
// operation, so an order found for moves is also one for the operations:
//
//   - a write of unknown outcome whose value was shown took effect before that, at
//     the revision that was shown;
//   - one whose value no client saw is left to the end, where it has no effect
//     on any client, unless the history cannot continue without it (spare).
//
// The verdict does not depend on any of this being true: if a watch lies, the replay fails and
// the search decides.
func moves(ops []porcupine.Operation, seen facts.Sightings) (must, spare []*move) {
	for _, o := range ops {
		m := &move{action: o.Input.(action), call: o.Call, ret: o.Return}
		shown, known := seen.Of(m.Op)
		if facts.IsWrite(m.Type) && m.Type != record.OpDelete && known {
			m.Revision = cmp.Or(m.Revision, shown.Revision)
			if m.Outcome == record.Unknown {
				m.Outcome, m.ret = record.OK, max(m.call, int64(shown.At))
			}
		}
		m.rank, _ = strconv.ParseUint(m.Revision, 10, 64)
		if m.Outcome == record.OK {
			must = append(must, m)
		} else {
			spare = append(spare, m)
		}
	}
	return must, spare
}

// replay orders the operations of one key without a search. Writes go by their revisions, reads
// directly behind what they returned, deletes without a revision where the next create needs one.
// Its choices are guesses; each step is checked as in the search, and by the same rule of real
// time: an operation may only come next if none of those that are left returned before its call.
type replay struct {
	byReturn []*move // those that must come, by their returns
	writes   []*move // of values, and deletes that have a revision, by revision
	reads    map[string][]*move
	absent   []*move // reads of nothing
	checks   []*move // other refusals
	deletes  []*move
	creates  []*move // spare, puts included
	removals []*move // spare deletes
	updates  []*move // spare updates and patches
	initial  string  // the value from before the record, if a client read it
	state    register
	setter   *move // the write that made the state
	left     int
}

func newReplay(must, spare []*move) *replay {
	r := &replay{byReturn: slices.Clone(must), reads: map[string][]*move{}, state: register{fresh: true}, left: len(must)}
	slices.SortStableFunc(r.byReturn, func(a, b *move) int { return cmp.Compare(a.ret, b.ret) })
	byCall := slices.Clone(must)
	slices.SortStableFunc(byCall, compareCalls)
	for _, m := range byCall {
		m.done = false
		switch {
		case m.Type == opPresent || m.Type == opOther:
			r.checks = append(r.checks, m)
		case m.Type == record.OpGet && !m.Found:
			r.absent = append(r.absent, m)
		case m.Type == record.OpGet:
			r.reads[m.Value] = append(r.reads[m.Value], m)
			if m.initial && r.initial == "" {
				r.initial = m.Value
			}
		case m.Type == record.OpDelete && m.rank == 0:
			r.deletes = append(r.deletes, m)
		default:
			r.writes = append(r.writes, m)
		}
	}
	slices.SortStableFunc(r.writes, func(a, b *move) int { return cmp.Compare(a.rank, b.rank) })
	for _, m := range slices.SortedStableFunc(slices.Values(spare), compareCalls) {
		m.done = false
		switch m.Type {
		case record.OpCreate, record.OpPut:
			r.creates = append(r.creates, m)
		case record.OpDelete:
			r.removals = append(r.removals, m)
		default:
			r.updates = append(r.updates, m)
		}
	}
	return r
}

func compareCalls(a, b *move) int { return cmp.Compare(a.call, b.call) }

// run reports whether it found an order. A key of unknown initial state may have existed and been
// deleted: deleteFirst starts with that delete.
func (r *replay) run(deleteFirst bool) bool {
	for r.left > 0 {
		switch {
		case r.read():
		case r.check():
		case r.unread() != nil:
			return false // a read still needs what the next write replaces
		case r.state.fresh && deleteFirst && r.delete():
		case !r.write() && !r.hide():
			return false
		}
	}
	return true
}

// check takes the refusals that fit the state. They change nothing except that one may be the
// first to show a key, so none can come too early.
func (r *replay) check() bool {
	horizon, left := r.horizon().ret, r.left
	for i := 0; i < len(r.checks) && r.checks[i].call <= horizon && r.left > 0; {
		if r.take(r.checks[i]) {
			r.checks = slices.Delete(r.checks, i, i+1)
		} else {
			i++
		}
	}
	return r.left < left
}

// hide takes a write that no client saw, if a refusal needs another version.
func (r *replay) hide() bool {
	h := r.horizon()
	if h.Type != opOther || !r.state.present {
		return false
	}
	for i, m := range r.updates {
		if m.call <= h.ret && fits(r.state, m.action) {
			r.updates = slices.Delete(r.updates, i, i+1)
			return r.take(m)
		}
	}
	return r.delete()
}

// horizon is the earliest return of the remaining operations.
func (r *replay) horizon() *move {
	for len(r.byReturn) > 0 && r.byReturn[0].done {
		r.byReturn = r.byReturn[1:]
	}
	return r.byReturn[0]
}

func (r *replay) take(m *move) bool {
	if m.call > r.horizon().ret {
		return false
	}
	ok, next := step(r.state, m.action)
	if !ok {
		return false
	}
	r.state, m.done = next, true
	if m.ret != facts.Never {
		r.left--
	}
	if facts.IsWrite(m.Type) {
		r.setter = m
	}
	return true
}

// queue is the queue of the reads that fit the state.
func (r *replay) queue() (value string, present bool) {
	if r.state.fresh {
		return r.initial, r.initial != ""
	}
	return r.state.value, r.state.present
}

func (r *replay) read() bool {
	value, present := r.queue()
	waiting := r.absent
	if present {
		waiting = r.reads[value]
	}
	n := 0
	for n < len(waiting) && r.left > 0 && r.take(waiting[n]) {
		n++
	}
	if present {
		r.reads[value] = waiting[n:]
	} else {
		r.absent = waiting[n:]
	}
	return n > 0
}

func (r *replay) unread() *move {
	if value, present := r.queue(); present && len(r.reads[value]) > 0 {
		return r.reads[value][0]
	}
	return nil
}

func (r *replay) write() bool {
	var next *move
	if len(r.writes) > 0 {
		next = r.writes[0]
		if r.take(next) {
			r.writes = r.writes[1:]
			return true
		}
	}
	if r.state.present || r.state.fresh {
		return (next == nil || next.Type == record.OpCreate) && r.delete()
	}
	// A create that no client saw goes between two deletes.
	for i, m := range r.creates {
		if !m.done && m.call <= r.horizon().ret {
			r.creates = r.creates[i+1:]
			return r.take(m)
		}
	}
	return false
}

// delete takes the most urgent delete: one of this version alone, then the one that returns
// first, then one of unknown outcome, which never returns.
func (r *replay) delete() bool {
	horizon := r.horizon().ret
	best := -1
	for i, m := range r.deletes {
		if m.call > horizon {
			break
		}
		if !r.state.fresh && !fits(r.state, m.action) {
			continue
		}
		if best < 0 || m.Expect != "" || r.deletes[best].Expect == "" && m.ret < r.deletes[best].ret {
			best = i
		}
	}
	if best >= 0 {
		m := r.deletes[best]
		r.deletes = slices.Delete(r.deletes, best, best+1)
		return r.take(m)
	}
	for i, m := range r.removals {
		if m.call <= horizon && (r.state.fresh || fits(r.state, m.action)) {
			r.removals = slices.Delete(r.removals, i, i+1)
			return r.take(m)
		}
	}
	return false
}

func (r *replay) stuck() []*move {
	list := []*move{r.horizon()}
	for _, m := range []*move{r.setter, r.unread()} {
		if m != nil {
			list = append(list, m)
		}
	}
	if len(r.writes) > 0 {
		list = append(list, r.writes[0])
	}
	return list
}
