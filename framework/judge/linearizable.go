package judge

import (
	"cmp"
	"fmt"
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
		Invariant: "HA-INV-001",
		Lasting:   true,
		Guarantee: "The history of reads and writes is linearizable: every quorum read and list returns the newest acknowledged write or deletion, an acknowledged write is never lost, and of several updates of one version exactly one wins.",
		Source:    "Automated HA master deployment; Kubernetes API concepts (resource versions)",
	}, func(m *matter) finding { return judgeLinearizable(m, linearizeLimit) }}
}

func judgeLinearizable(m *matter, limit time.Duration) finding {
	return judgeWithin(m, limit, searchRoom)
}

func judgeWithin(m *matter, limit time.Duration, room int64) finding {
	h, problem := newKeyHistories(m, apiKubernetes)
	if problem != nil {
		return *problem
	}
	if len(h.keys) == 0 {
		return notApplicable("the record has no reads and writes of single keys through an API server")
	}
	if h.writes == 0 || h.reads == 0 {
		return inconclusive("there was too little traffic: %d writes and %d quorum reads succeeded", h.writes, h.reads).
			counted("%d writes, %d reads", h.writes, h.reads)
	}
	if f := h.judge(limit, room); f.verdict != Pass {
		return f
	}
	return m.met(passed("The history of %s on %d keys is linearizable; no acknowledged write is lost.", h.traffic("quorum"), len(h.keys)), h.after).counted("%s", h.size())
}

// keyHistories are the operations on the keys of one API, by key.
type keyHistories struct {
	keys []string // sorted
	ops  map[string][]record.Op
	seen sightings
	// writes, reads and lists were answered; after of them met the check's fault.
	writes, reads, lists, after int
}

// newKeyHistories gathers the writes and quorum reads of one API. The finding says why
// they cannot be judged, if so.
func newKeyHistories(m *matter, api string) (*keyHistories, *finding) {
	h := &keyHistories{ops: map[string][]record.Op{}, seen: sighted(m.run, api)}
	for _, op := range ownOps(m.run) {
		if op.API != api || !(isWrite(op.Type) || isQuorumRead(op)) {
			continue
		}
		if op.Return < op.Call {
			f := inconclusive("the history cannot be judged: an operation returns before its call (%s)", describe(op))
			return nil, &f
		}
		h.ops[op.Key] = append(h.ops[op.Key], op)
		if op.Outcome == record.OK && isWrite(op.Type) {
			h.writes++
		} else if op.Outcome == record.OK {
			h.reads++
		}
		if op.Outcome == record.OK && m.meets(op.Call) {
			h.after++
		}
	}
	h.addLists(m, api)
	h.keys = slices.Sorted(maps.Keys(h.ops))
	return h, nil
}

// traffic says in words how much was answered.
func (h *keyHistories) traffic(reads string) string {
	s := fmt.Sprintf("%d acknowledged writes and %d %s reads", h.writes, h.reads, reads)
	if h.lists > 0 {
		s = fmt.Sprintf("%d acknowledged writes, %d %s reads and %d lists", h.writes, h.reads, reads, h.lists)
	}
	return s
}

func (h *keyHistories) size() string {
	n := 0
	for _, ops := range h.ops {
		n += len(ops)
	}
	return fmt.Sprintf("%s on %s", plural(n, "operation"), plural(len(h.keys), "key"))
}

// judge decides on each key alone, within the limits of computing time and of room in
// bytes.
func (h *keyHistories) judge(limit time.Duration, room int64) finding {
	bounds := search{time: newAllowance(limit), room: room}
	defer bounds.time.timer.Stop()
	var open []*trial
	for _, key := range h.keys {
		if t := newTrial(bounds, key, h.ops[key], h.seen); !t.replay() {
			open = append(open, t)
		}
	}
	for _, t := range open {
		if t.refute() {
			return t.explain().counted("%s", h.size())
		}
	}
	for _, t := range open {
		switch t.decide() {
		case porcupine.Illegal:
			return t.explain().counted("%s", h.size())
		case porcupine.Unknown:
			f := inconclusive("the linearizability checker ran out of time (%s) or room (%d MiB) on %d operations on %s, %d of them of unknown outcome",
				limit, room>>20, len(t.ops), t.key, t.unknown())
			return f.exhibits(t.lost()).counted("%s", h.size())
		}
	}
	return passed("The history of each of %s is linearizable.", plural(len(h.keys), "key"))
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
