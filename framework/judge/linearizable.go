package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// linearizeLimit is the computing time that the check of one record may take.
const linearizeLimit = 60 * time.Second

func linearizable() definition {
	return definition{Doc{
		Name:      "linearizable",
		Guarantee: "The history of reads and writes is linearizable: every quorum read returns the newest acknowledged write, an acknowledged write is never lost, and of several updates of one version exactly one wins.",
		Source:    "Automated HA master deployment; Kubernetes API concepts (resource versions)",
	}, func(m *matter) finding { return judgeLinearizable(m, linearizeLimit) }}
}

func judgeLinearizable(m *matter, limit time.Duration) finding {
	return judgeWithin(m, limit, searchRoom)
}

func judgeWithin(m *matter, limit time.Duration, room int64) finding {
	bounds := search{time: newAllowance(limit), room: room}
	defer bounds.time.timer.Stop()
	histories := map[string][]record.Op{}
	writes, reads, after := 0, 0, 0
	for _, op := range ownOps(m.run) {
		if !isRegister(op) || !(isWrite(op.Type) || isQuorumRead(op)) {
			continue
		}
		if op.Return < op.Call {
			return inconclusive("the history cannot be judged: an operation returns before its call (%s)", describe(op))
		}
		histories[op.Key] = append(histories[op.Key], op)
		if op.Outcome == record.OK && isWrite(op.Type) {
			writes++
		} else if op.Outcome == record.OK {
			reads++
		}
		if m.fault != nil && op.Outcome == record.OK && op.Call >= m.fault.effect() {
			after++
		}
	}
	if writes == 0 || reads == 0 {
		return inconclusive("there was too little traffic: %d writes and %d quorum reads succeeded", writes, reads).
			counted("%d writes, %d reads", writes, reads)
	}

	seen := sighted(m.run)
	keys := slices.Sorted(maps.Keys(histories))
	var open []*trial
	all := 0
	for _, key := range keys {
		t := newTrial(bounds, key, histories[key], seen)
		all += len(t.ops)
		if !t.replay() {
			open = append(open, t)
		}
	}
	counts := func(f finding) finding { return f.counted("%d operations on %d keys", all, len(keys)) }
	for _, t := range open {
		if t.refute() {
			return counts(t.explain())
		}
	}
	for _, t := range open {
		switch t.decide() {
		case porcupine.Illegal:
			return counts(t.explain())
		case porcupine.Unknown:
			f := inconclusive("the linearizability checker ran out of time (%s) or room (%d MiB) on %d operations on %s, %d of them of unknown outcome",
				limit, room>>20, len(t.ops), t.key, t.unknown())
			f.binding = true
			return counts(f.exhibits(t.lost()))
		}
	}
	return counts(m.exposed(passed("The history of %d acknowledged writes and %d quorum reads on %d keys is linearizable; no acknowledged write is lost.",
		writes, reads, len(keys)), after, "answered operation"))
}

// trial is the judgement on one key: first replay, which finds an order for nearly
// every history that has one; then refute, which finds a part that has none; and
// what neither settles goes to the search, which settles everything if it has the
// time.
type trial struct {
	key         string
	ops         []porcupine.Operation
	must, spare []*move
	stuck       []*move // where the replay ended
	search      search
	refutation  *refutation
	core        []int // an illegal part of the refutation's operations
}

func newTrial(bounds search, key string, ops []record.Op, seen sightings) *trial {
	t := &trial{key: key, ops: operations(ops), search: bounds}
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

// replay tells whether the history has an order that can be had without a search.
func (t *trial) replay() bool {
	for _, deleteFirst := range []bool{false, true} {
		r := newReplay(t.must, t.spare)
		if r.run(deleteFirst) {
			return true
		}
		t.stuck = append(t.stuck, r.stuck()...)
	}
	return false
}

// refute looks for an illegal part around the place where the replay ended.
func (t *trial) refute() bool {
	t.refutation = newRefutation(t.ops, t.search.within(smallSearch))
	places := t.places()
	for _, n := range []int{0, 8, 32, 128, 512} {
		part := t.refutation.around(places, n)
		if t.refutation.illegal(part) {
			t.core = t.refutation.shrink(part)
			return true
		}
		if len(part) == len(t.ops) {
			return false
		}
	}
	return false
}

// places are the operations where the replay ended, as the refutation numbers them.
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

// decide searches: with what clients were shown, which can only find an order; then
// without it, which alone decides that there is none.
func (t *trial) decide() porcupine.CheckResult {
	resolved := make([]porcupine.Operation, 0, len(t.ops))
	for _, m := range slices.Concat(t.must, t.spare) {
		resolved = append(resolved, porcupine.Operation{Call: m.call, Return: m.ret, Input: m.action})
	}
	if t.search.within(100*smallSearch).check(registerModel(), resolved) == porcupine.Ok {
		return porcupine.Ok
	}
	result := t.search.check(registerModel(), t.ops)
	if result == porcupine.Illegal {
		all := make([]int, len(t.ops))
		for i := range all {
			all[i] = i
		}
		t.core = t.refutation.shrink(all)
	}
	return result
}
