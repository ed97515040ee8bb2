package judges

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// trial decides one key: first replay, which finds an order for nearly every history that has
// one; then refute, which finds a part without one; if neither decides, the search does, given
// enough time.
//
// On a short legal history the search alone is as fast as the replay (see
// BenchmarkAgainstPlainChecker). Its memory grows with the square of the operations, so it has no
// verdict on 100,000 of one key within SearchRoom; and it takes seconds, or has no verdict, on
// 1,000 operations that are not linearizable if some are of unknown outcome. The replay needs
// linear memory, and refute finds the part where the replay stops.
type trial struct {
	key         string
	ops         []porcupine.Operation
	must, spare []*move
	stuck       []*move // where the replay stopped
	search      Search
	Refutation  *refutation
	Core        []int // an illegal part of the refutation's operations
}

func NewTrial(bounds Search, key string, ops []record.Op, seen facts.Sightings) *trial {
	t := &trial{key: key, ops: Operations(ops), search: bounds}
	slices.SortStableFunc(t.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	t.must, t.spare = moves(t.ops, seen)
	return t
}

func (t *trial) unknown() (n int) {
	for _, o := range t.ops {
		if o.Input.(action).Outcome != record.OK {
			n++
		}
	}
	return n
}

// Replay reports whether the history has an order that needs no search.
func (t *trial) Replay() bool {
	for _, deleteFirst := range []bool{false, true} {
		r := newReplay(t.must, t.spare)
		if r.run(deleteFirst) {
			return true
		}
		t.stuck = append(t.stuck, r.stuck()...)
	}
	return false
}

// Refute looks for an illegal part around the place where the replay stopped.
func (t *trial) Refute() bool {
	t.Refutation = NewRefutation(t.ops, t.search.within(smallSearch))
	places := t.places()
	for _, n := range []int{0, 8, 32, 128, 512} {
		part := t.Refutation.around(places, n)
		if t.Refutation.Illegal(part) {
			t.Core = t.Refutation.shrink(part)
			return true
		}
		if len(part) == len(t.ops) {
			return false
		}
	}
	return false
}

// places are the operations where the replay stopped, as the refutation numbers them.
func (t *trial) places() (list []int) {
	for _, m := range t.stuck {
		list = append(list, slices.IndexFunc(t.ops, func(o porcupine.Operation) bool {
			a := o.Input.(action)
			return o.Call == m.call && a.Client == m.Client && a.Type == m.Type && a.Value == m.Value
		}))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Decide searches: with what clients saw, which can only find an order; then without it, which
// alone decides that none exists.
func (t *trial) Decide() porcupine.CheckResult {
	resolved := make([]porcupine.Operation, 0, len(t.ops))
	for _, m := range slices.Concat(t.must, t.spare) {
		resolved = append(resolved, porcupine.Operation{Call: m.call, Return: m.ret, Input: m.action})
	}
	if t.search.within(100*smallSearch).Check(RegisterModel(), resolved) == porcupine.Ok {
		return porcupine.Ok
	}
	result := t.search.Check(RegisterModel(), t.ops)
	if result == porcupine.Illegal {
		all := make([]int, len(t.ops))
		for i := range all {
			all[i] = i
		}
		t.Core = t.Refutation.shrink(all)
	}
	return result
}
