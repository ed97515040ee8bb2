package judge

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// generator is a store with clients that act in a closed loop: each calls an operation,
// which takes effect at one moment between call and return, and then continues. What
// they write down is linearizable, unless something is changed afterwards.
type generator struct {
	rng     *rand.Rand
	api     string
	keys    int
	unknown float64 // share of writes whose response is lost
	cells   map[string]cell
	rev     int
	now     record.Nanos
	tasks   taskQueue
	ops     []record.Op
	events  []record.Event
}

type cell struct {
	present bool
	value   string
	rev     int
}

type task struct {
	at  record.Nanos
	seq int
	do  func()
}

type taskQueue []task

func (q taskQueue) Len() int { return len(q) }
func (q taskQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].seq, q[j].seq)) < 0
}
func (q taskQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *taskQueue) Push(x any)   { *q = append(*q, x.(task)) }
func (q *taskQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (w *generator) after(d int64, do func()) {
	heap.Push(&w.tasks, task{w.now + record.Nanos(d), len(w.tasks), do})
}

const ms = 1_000_000

// live lets the clients make about n operations.
func live(rng *rand.Rand, clients, keys, n int, unknown float64) *generator {
	return liveOf(facts.APIKubernetes, rng, clients, keys, n, unknown)
}

// liveOf is live through one API: etcd has puts where Kubernetes has patches, and returns the
// revision of a deletion.
func liveOf(api string, rng *rand.Rand, clients, keys, n int, unknown float64) *generator {
	w := &generator{rng: rng, api: api, keys: keys, unknown: unknown, cells: map[string]cell{}, rev: 100}
	for k := range keys {
		if rng.IntN(2) == 0 {
			w.rev++
			w.cells[fmt.Sprint("k", k)] = cell{true, fmt.Sprint("before-", k), w.rev}
		}
	}
	calls := 0
	for c := range clients {
		known := map[string]int{}
		values := 0
		var turn func()
		turn = func() {
			if calls++; calls > n {
				return
			}
			op := w.choose(fmt.Sprint("c", c), known)
			if op.Type != record.OpGet && op.Type != record.OpDelete {
				values++
				op.Value = fmt.Sprintf("v%d-%d", c, values)
			}
			w.call(op, known, turn)
		}
		w.after(rng.Int64N(20*ms), turn)
	}
	for len(w.tasks) > 0 {
		t := heap.Pop(&w.tasks).(task)
		w.now = t.at
		t.do()
	}
	slices.SortStableFunc(w.ops, func(a, b record.Op) int { return cmp.Compare(a.Return, b.Return) })
	return w
}

func (w *generator) choose(client string, known map[string]int) record.Op {
	op := record.Op{API: w.api, Client: client, Entrance: "node-" + client[1:], Collection: "c", Key: fmt.Sprint("k", w.rng.IntN(w.keys)), Outcome: record.OK}
	switch dice := w.rng.IntN(100); {
	case dice < 45:
		op.Type = record.OpGet
	case dice < 70 && known[op.Key] > 0:
		op.Type, op.Expect = record.OpUpdate, fmt.Sprint(known[op.Key])
	case dice < 78 && w.api == facts.APIEtcd:
		op.Type = record.OpPut
	case dice < 78:
		op.Type = record.OpPatch
	case dice < 82 && known[op.Key] > 0:
		op.Type, op.Expect = record.OpDelete, fmt.Sprint(known[op.Key])
	case dice < 86:
		op.Type = record.OpDelete
	default:
		op.Type = record.OpCreate
	}
	return op
}

func (w *generator) call(op record.Op, known map[string]int, next func()) {
	op.Call = w.now
	there, back := 1+w.rng.Int64N(5*ms), 1+w.rng.Int64N(5*ms)
	finish := func() {
		op.Return = w.now
		w.ops = append(w.ops, op)
		w.after(w.rng.Int64N(20*ms), next)
	}
	if w.rng.Float64() >= w.unknown {
		w.after(there, func() {
			w.apply(&op, known)
			w.after(back, finish)
		})
		return
	}
	// The client gives up. The request may be lost, or take effect even later.
	lost := op
	lost.Outcome, lost.Error = record.Unknown, "timed out"
	if w.rng.IntN(2) == 0 {
		w.after(1+w.rng.Int64N(200*ms), func() { w.apply(&lost, nil) })
	}
	answer := lost
	w.after(50*ms, func() { op = answer; finish() })
}

func (w *generator) apply(op *record.Op, known map[string]int) {
	c := w.cells[op.Key]
	event := record.Event{Watch: "w", Type: record.EventModified, Key: op.Key, Value: op.Value, Seen: w.now + record.Nanos(w.rng.Int64N(20*ms))}
	fits := c.present && (op.Expect == "" || op.Expect == fmt.Sprint(c.rev)) || op.Type == record.OpPut
	switch {
	case op.Type == record.OpGet:
		op.Found, op.Value = c.present, c.value
		if c.present {
			op.Revision = fmt.Sprint(c.rev)
			if known != nil {
				known[op.Key] = c.rev
			}
		}
		return
	case op.Type == record.OpCreate && c.present, op.Type != record.OpCreate && !fits:
		if known != nil {
			op.Outcome, op.Error = record.Refused, "conflict"
			switch {
			case op.Type == record.OpCreate:
				op.Refusal = record.RefusedPresent
			case !c.present:
				op.Refusal = record.RefusedAbsent
			default:
				op.Refusal = record.RefusedVersion
			}
		}
		return
	}
	w.rev++
	w.cells[op.Key] = cell{op.Type != record.OpDelete, op.Value, w.rev}
	switch op.Type {
	case record.OpCreate:
		event.Type = record.EventAdded
	case record.OpDelete:
		event.Type, event.Value = record.EventDeleted, c.value
		w.cells[op.Key] = cell{}
	}
	event.Revision = fmt.Sprint(w.rev)
	w.events = append(w.events, event)
	if known != nil && op.Type == record.OpDelete && w.api == facts.APIEtcd {
		op.Revision = event.Revision
	} else if known != nil && op.Type != record.OpDelete {
		op.Revision = event.Revision
		known[op.Key] = w.rev
	}
}

// run is the record of the world, with or without a watch.
func (w *generator) run(watched bool) *record.Run {
	s := newStory()
	for _, op := range w.ops {
		s.run.Ops = append(s.run.Ops, record.Timed[record.Op]{At: op.Return, V: op})
	}
	if watched {
		s.run.Watches = []record.Timed[record.Watch]{{V: record.Watch{ID: "w", Phase: record.WatchOpened, API: w.api, Collection: "c"}}}
		for _, e := range w.events {
			s.run.Events = append(s.run.Events, record.Timed[record.Event]{At: e.Seen, V: e})
		}
	}
	return s.run
}

// spoil changes something that a client saw; the history may still be legal.
func (w *generator) spoil() {
	i := w.rng.IntN(len(w.ops))
	op, other := &w.ops[i], w.ops[w.rng.IntN(len(w.ops))]
	switch w.rng.IntN(7) {
	case 6: // another reason for a refusal
		if op.Outcome == record.Refused {
			op.Refusal = []record.Refusal{"", record.RefusedAbsent, record.RefusedPresent, record.RefusedVersion}[w.rng.IntN(4)]
			if op.Refusal == record.RefusedVersion && op.Expect == "" {
				op.Refusal = ""
			}
		}
	case 0: // another state than there was
		if op.Type == record.OpGet && other.Key == op.Key && other.Outcome == record.OK {
			op.Found, op.Value, op.Revision = other.Type != record.OpDelete && other.Value != "", other.Value, other.Revision
		}
	case 1: // nothing, instead of something
		if op.Type == record.OpGet {
			op.Found, op.Value, op.Revision = false, "", ""
		}
	case 2: // an acknowledgement of a refused write
		if op.Outcome == record.Refused {
			w.rev++
			op.Outcome, op.Error, op.Refusal, op.Revision = record.OK, "", "", fmt.Sprint(w.rev)
			if op.Type == record.OpDelete {
				op.Revision = ""
			}
		}
	case 3: // a refusal of a write that took effect
		if facts.IsWrite(op.Type) {
			op.Outcome, op.Revision = record.Refused, ""
			op.Refusal = []record.Refusal{record.RefusedAbsent, record.RefusedPresent}[w.rng.IntN(2)]
		}
	case 4: // at another time
		by := record.Nanos(w.rng.Int64N(60*ms) - 30*ms)
		op.Call, op.Return = op.Call+by, op.Return+by
	case 5: // a version that is not to be known
		if op.Outcome == record.OK {
			op.Revision = ""
		}
	}
}
