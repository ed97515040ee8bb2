package judges

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// refutation shows that the history of one key is not linearizable by a part of it.
//
// The operations of the part are shown, the others hidden. A hidden write may still have changed
// the key's state between two shown operations, if its time allows; nothing else is required of
// it. Part and hidden writes allow whatever the whole history allows:
//
//	Take an order of all operations that explains the history, and in it a shown
//	operation o. The state that o met was made by the last write before it. If
//	that is a shown one, the part's state is the same. If it is a hidden one, h, it
//	came after the last shown operation s (so h had not returned when s was
//	called) and before o (so h was called before o returned), and o fits what h
//	left: nothing after a delete, else h's value and version. That is what step
//	asks for. A write of unknown outcome that had no effect can as well come last.
//
// So if no order explains the part, none explains the whole. It also follows that hiding more can
// only allow more, so the part can be shrunk step by step. A read whose value was written by a
// hidden write is hidden too.
type refutation struct {
	Ops     []porcupine.Operation // of the key, by their calls
	writers map[string][]int      // of a value
	search  Search
}

func NewRefutation(ops []porcupine.Operation, s Search) *refutation {
	r := &refutation{Ops: slices.Clone(ops), writers: map[string][]int{}, search: s}
	slices.SortStableFunc(r.Ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for i := range r.Ops {
		if a := r.act(i); facts.IsWrite(a.Type) && a.Type != record.OpDelete {
			r.writers[a.Value] = append(r.writers[a.Value], i)
		}
	}
	return r
}

func (r *refutation) act(i int) action { return r.Ops[i].Input.(action) }

// Illegal reports whether no order explains the shown operations, given by their places in ops.
// False also means that the bounds were too small to decide.
func (r *refutation) Illegal(shown []int) bool {
	if len(shown) == 0 {
		return false
	}
	part := make([]porcupine.Operation, len(shown))
	for i, n := range shown {
		part[i] = porcupine.Operation{Call: r.Ops[n].Call, Return: r.Ops[n].Return, Input: r.Ops[n]}
	}
	return r.search.Check(r.hidden(shown).model(), part) == porcupine.Illegal
}

// Closed leaves out the reads of values whose writes are not shown.
func (r *refutation) Closed(shown []int) []int {
	in := make(map[int]bool, len(shown))
	for _, n := range shown {
		in[n] = true
	}
	return slices.DeleteFunc(slices.Clone(shown), func(n int) bool {
		a := r.act(n)
		return a.Type == record.OpGet && a.Found &&
			slices.ContainsFunc(r.writers[a.Value], func(w int) bool { return !in[w] })
	})
}

// shrink removes operations from an illegal part as long as it stays illegal.
func (r *refutation) shrink(shown []int) []int {
	size := max(len(shown)/2, 1)
	for {
		before := len(shown)
		for i := 0; i < len(shown); {
			without := r.Closed(slices.Delete(slices.Clone(shown), i, min(i+size, len(shown))))
			if r.Illegal(without) {
				shown = without
			} else {
				i += size
			}
		}
		if size == 1 && len(shown) == before {
			return shown
		}
		size = max(size/2, 1)
	}
}

// around returns the n operations next in time to those at the places given, with
// these and the writes of what they read.
func (r *refutation) around(places []int, n int) []int {
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range places {
		from, to = min(from, int64(r.act(p).Return)), max(to, r.Ops[p].Call)
	}
	near := make([]int, len(r.Ops))
	for i := range near {
		near[i] = i
	}
	distance := func(i int) int64 {
		return max(0, r.Ops[i].Call-max(from, to), min(from, to)-int64(r.act(i).Return))
	}
	slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
	shown := append(slices.Clone(places), near[:min(n, len(near))]...)
	for _, p := range shown {
		if a := r.act(p); a.Type == record.OpGet && a.Found {
			shown = append(shown, r.writers[a.Value]...)
		}
	}
	slices.Sort(shown)
	return slices.Compact(shown)
}

// hidden are the writes that are not shown.
type hidden struct {
	deletes, values, unversioned facts.Intervals
	versions                     map[string]facts.Intervals
}

func (r *refutation) hidden(shown []int) *hidden {
	h := &hidden{versions: map[string]facts.Intervals{}}
	next := 0
	for i, o := range r.Ops {
		if next < len(shown) && shown[next] == i {
			next++
			continue
		}
		a := o.Input.(action)
		switch {
		case !facts.IsWrite(a.Type):
			continue
		case a.Type == record.OpDelete:
			h.deletes = h.deletes.Add(o.Call, o.Return)
			continue
		case a.Revision == "":
			h.unversioned = h.unversioned.Add(o.Call, o.Return)
		default:
			h.versions[a.Revision] = h.versions[a.Revision].Add(o.Call, o.Return)
		}
		h.values = h.values.Add(o.Call, o.Return)
	}
	return h
}

// part is the state of a key as far as the shown operations determine it.
type part struct {
	register
	since int64 // hidden writes that returned before cannot have changed it
}

func (h *hidden) model() porcupine.Model {
	inner := RegisterModel()
	return porcupine.Model{
		Init: func() any { return part{register{fresh: true}, math.MinInt64} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := h.step(state.(part), input.(porcupine.Operation))
			return ok, next
		},
		Hash: func(state any) uint64 {
			s := state.(part)
			return inner.Hash(s.register) ^ uint64(s.since)*0x9e3779b97f4a7c15
		},
	}
}

func (h *hidden) step(s part, o porcupine.Operation) (bool, part) {
	a := o.Input.(action)
	if s.revision == "" && s.present {
		a.Expect = "" // a hidden read may have returned the version
	}
	acked := a
	acked.Outcome = record.OK
	ok, next := step(s.register, acked)
	if a.Type == opPresent || a.Type == opOther {
		// It does not say which of the earlier writes made the state.
		s.present = s.present || ok && s.fresh && next.present
		return ok || h.allow(s, o), s
	}
	if !ok && h.allow(s, o) {
		ok, next = true, register{}
		if facts.IsWrite(a.Type) && a.Type != record.OpDelete {
			next = register{present: true, value: a.Value, revision: a.Revision}
		}
	}
	switch {
	case ok && facts.IsWrite(a.Type):
		return true, part{next, o.Call}
	case ok:
		return true, part{next, max(s.since, o.Call)}
	}
	return a.Outcome != record.OK, s
}

// allow reports whether a hidden write can have left what the operation needs.
func (h *hidden) allow(s part, o porcupine.Operation) bool {
	a := o.Input.(action)
	switch {
	case a.Type == record.OpGet && a.Found:
		return false
	case a.Type == record.OpGet, a.Type == record.OpCreate:
		return h.deletes.Within(s.since, o.Return)
	case a.Type == opOther:
		return h.values.Within(s.since, o.Return) || h.deletes.Within(s.since, o.Return)
	case a.Expect == "":
		return h.values.Within(s.since, o.Return)
	}
	return h.versions[a.Expect].Within(s.since, o.Return) || h.unversioned.Within(s.since, o.Return)
}
