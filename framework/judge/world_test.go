package judge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// world is a simulated cluster whose histories are legal: a store whose history is compacted now
// and then, entrances whose caches lag behind it, writes whose responses get lost and that may
// take effect much later, paged lists, and watches that break and continue through another
// entrance.
type world struct {
	*rand.Rand
	api       string
	run       *record.Run
	now       record.Nanos
	rev       uint64
	compacted uint64
	history   []simChange
	state     map[string]*simPair
	caches    []uint64 // version up to which each entrance knows the store
	ops       []*simOp
	late      []*simOp // given up by their clients; they may yet take effect
	lists     []*simList
	watches   []*simWatch
	known     []uint64 // versions that clients have seen
	n         int      // of values, transactions and watches
}

type simPair struct {
	value, group  string
	rev, created  uint64
	version       int64
	key           string
	acknowledged  bool // to its writer, with its version
	compareAndSet bool
}

// simChange is a change of a key; old or pair is nil if it was or is absent.
type simChange struct {
	key       string
	rev       uint64
	old, pair *simPair
}

type simOp struct {
	list    []record.Op // several in a transaction
	pairs   []*simPair  // that it wrote
	applied bool
	refused bool
	read    *simPair
}

type simList struct {
	record.List
	version uint64
	rest    []record.Item
}

type simWatch struct {
	record.Watch
	pos      uint64 // everything up to it is sent, or queued
	told     uint64 // what its client has seen: an event, a bookmark, or the start
	queue    []record.Event
	initial  bool // the end of the initial events is still to be sent
	over     bool
	batch    int
	entrance int
}

const simEntrances = 3

// simulate returns a world after a number of steps.
func simulate(api string, seed uint64, steps int) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 7)), api: api, rev: 100, state: map[string]*simPair{}, run: newStory().run}
	w.caches = []uint64{w.rev, w.rev, w.rev}
	for range steps {
		w.now += record.Nanos(1 + w.IntN(5_000_000))
		w.step()
	}
	for _, o := range w.ops {
		w.finish(o)
	}
	return w
}

func (w *world) step() {
	switch dice := w.IntN(100); {
	case dice < 15:
		w.call()
	case dice < 35:
		w.progress()
	case dice < 37:
		w.rev += uint64(1 + w.IntN(3)) // another client writes another key
	case dice < 39 && len(w.late) > 0:
		i := w.IntN(len(w.late))
		w.apply(w.late[i])
		w.late = slices.Delete(w.late, i, i+1)
	case dice < 50:
		i := w.IntN(simEntrances)
		w.caches[i] += uint64(w.IntN(int(w.rev-w.caches[i]) + 1))
	case dice < 55:
		w.list()
	case dice < 64:
		w.page()
	case dice < 67:
		w.open()
	case dice < 96:
		w.watch()
	case dice < 97:
		w.compacted += uint64(w.IntN(int(w.rev-min(w.rev, w.compacted)) + 1))
		w.compacted = max(w.compacted, 90)
	}
}

func (w *world) entrance(i int) string { return fmt.Sprintf("node-%d", i+1) }

// key returns one of a few keys. For etcd, a group is a range of keys.
func (w *world) key() string { return fmt.Sprintf("%c/k%d", 'a'+w.IntN(2), w.IntN(4)) }

func (w *world) groupOf(key string) string {
	if w.api == facts.APIEtcd {
		return key[:1]
	}
	return string(rune('a' + w.IntN(2)))
}

// call makes a client start an operation.
func (w *world) call() {
	o := &simOp{}
	typ := []record.OpType{record.OpGet, record.OpCreate, record.OpUpdate, record.OpUpdate, record.OpPatch, record.OpDelete}[w.IntN(6)]
	if w.api == facts.APIEtcd && typ == record.OpPatch {
		typ = record.OpPut
	}
	o.list = []record.Op{w.operation(typ, w.key())}
	if w.api == facts.APIEtcd && w.IntN(5) == 0 {
		w.n++
		o.list = nil
		for _, k := range w.Perm(4)[:2+w.IntN(2)] {
			op := w.operation([]record.OpType{record.OpPut, record.OpPut, record.OpDelete}[w.IntN(3)], fmt.Sprintf("%c/k%d", 'a'+w.IntN(2), k))
			op.Transaction, op.Expect = fmt.Sprint("t", w.n), ""
			o.list = append(o.list, op)
		}
	}
	w.ops = append(w.ops, o)
}

func (w *world) operation(typ record.OpType, key string) record.Op {
	op := record.Op{Client: fmt.Sprint("c", w.IntN(5)), Entrance: w.entrance(w.IntN(simEntrances)), API: w.api, Type: typ, Key: key, Collection: "things", Call: w.now}
	if typ != record.OpGet && typ != record.OpDelete {
		w.n++
		op.Value, op.Group = fmt.Sprint("v", w.n), w.groupOf(key)
	}
	if typ == record.OpUpdate || typ == record.OpDelete && w.IntN(2) == 0 {
		if p := w.state[key]; p != nil {
			op.Expect = fmt.Sprint(p.rev)
		} else if typ == record.OpUpdate {
			op.Expect = "7"
		}
	}
	return op
}

// progress lets some operation take effect, be answered, or be given up.
func (w *world) progress() {
	if len(w.ops) == 0 {
		return
	}
	i := w.IntN(len(w.ops))
	o := w.ops[i]
	if !o.applied && !o.refused && w.IntN(10) > 0 {
		w.apply(o)
		return
	}
	w.ops = slices.Delete(w.ops, i, i+1)
	w.finish(o)
	if !o.applied && !o.refused {
		w.late = append(w.late, o)
	}
}

// apply lets an operation take effect in the store, or be refused by it.
func (w *world) apply(o *simOp) {
	op := o.list[0]
	p := w.state[op.Key]
	switch {
	case op.Type == record.OpGet:
		if o.read = p; w.IntN(3) == 0 {
			o.read = w.at(w.caches[w.IntN(simEntrances)])[op.Key]
			o.list[0].Consistency = "any"
		}
		o.applied = true
		return
	case op.Type == record.OpCreate && p != nil,
		(op.Type == record.OpUpdate || op.Type == record.OpPatch) && p == nil,
		op.Type == record.OpDelete && p == nil && w.api == facts.APIKubernetes,
		op.Expect != "" && (p == nil || op.Expect != fmt.Sprint(p.rev)):
		o.refused = true
		return
	}
	o.applied = true
	if slices.ContainsFunc(o.list, func(op record.Op) bool { return op.Type != record.OpDelete || w.state[op.Key] != nil }) {
		w.rev++ // etcd deletes a missing key without a new revision
	}
	for i := range o.list {
		op := &o.list[i]
		old := w.state[op.Key]
		op.Revision = fmt.Sprint(w.rev)
		if op.Type == record.OpDelete {
			if old != nil {
				delete(w.state, op.Key)
				w.history = append(w.history, simChange{op.Key, w.rev, old, nil})
			}
			continue
		}
		pair := &simPair{key: op.Key, value: op.Value, group: op.Group, rev: w.rev, created: w.rev, version: 1, compareAndSet: op.Expect != ""}
		if old != nil {
			pair.created, pair.version = old.created, old.version+1
		}
		o.pairs = append(o.pairs, pair)
		w.state[op.Key] = pair
		w.history = append(w.history, simChange{op.Key, w.rev, old, pair})
	}
}

// finish records what a client knows of an operation.
func (w *world) finish(o *simOp) {
	lost := w.IntN(8) == 0 || !o.applied && !o.refused
	for _, op := range o.list {
		op.Return = w.now
		switch {
		case lost:
			op.Outcome, op.Revision, op.Error = record.Unknown, "", "timed out"
		case o.refused:
			op.Outcome, op.Revision, op.Error = record.Refused, "", "conflict"
		default:
			op.Outcome = record.OK
			if op.Type == record.OpGet && o.read != nil {
				op.Found, op.Value, op.Group, op.Revision = true, o.read.value, o.read.group, fmt.Sprint(o.read.rev)
			}
			if op.Type == record.OpDelete && w.api == facts.APIKubernetes {
				op.Revision = ""
			}
			if v := record.Number(op.Revision); v > 0 {
				w.known = append(w.known, v)
			}
		}
		w.run.Ops = append(w.run.Ops, record.Timed[record.Op]{At: w.now, V: op})
	}
	for _, p := range o.pairs {
		p.acknowledged = !lost
	}
}

// at returns the state of a version.
func (w *world) at(version uint64) map[string]*simPair {
	state := map[string]*simPair{}
	for _, c := range w.history {
		if c.rev > version {
			break
		}
		state[c.key] = c.pair
		if c.pair == nil {
			delete(state, c.key)
		}
	}
	return state
}

// items returns the state of a scope in a version as a list shows it.
func (w *world) items(s facts.Scope, version uint64) []record.Item {
	var items []record.Item
	state := w.at(version)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if p := state[key]; (s.Key == "" || s.Key == key) && (s.Group == "" || s.Group == p.group) {
			items = append(items, record.Item{Key: key, Value: p.value, Group: p.group, Revision: fmt.Sprint(p.rev)})
		}
	}
	return items
}

// version returns a version that some client has seen, 0 for none.
func (w *world) version() uint64 {
	if len(w.known) == 0 {
		return 0
	}
	return w.known[w.IntN(len(w.known))]
}

// list starts a list.
func (w *world) list() {
	l := &simList{List: record.List{Client: fmt.Sprint("c", w.IntN(5)), API: w.api, Collection: "things", Call: w.now}}
	l.Match = []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchNotOlderThan, record.MatchExact}[w.IntN(4)]
	if w.IntN(3) == 0 {
		l.Group = string(rune('a' + w.IntN(2)))
	}
	l.Limit = w.IntN(4)
	e := w.IntN(simEntrances)
	l.Entrance = w.entrance(e)
	if l.Match == record.MatchNotOlderThan || l.Match == record.MatchExact {
		v := w.version()
		if v == 0 {
			return
		}
		l.Asked = fmt.Sprint(v)
	}
	w.lists = append(w.lists, l)
}

// page answers some list with its next page.
func (w *world) page() {
	if len(w.lists) == 0 {
		return
	}
	i := w.IntN(len(w.lists))
	l := w.lists[i]
	e := int(l.Entrance[5] - '1')
	if l.version == 0 {
		switch asked := record.Number(l.Asked); l.Match {
		case record.MatchUnset:
			l.version = w.rev
		case record.MatchAny:
			l.version = w.caches[e]
		case record.MatchNotOlderThan:
			w.caches[e] = max(w.caches[e], asked)
			l.version = w.caches[e]
		case record.MatchExact:
			l.version = asked
		}
		l.rest = w.items(facts.Scope{Group: l.Group}, l.version)
	}
	p := record.Page{Call: max(l.Call, w.now-1000), Return: w.now, Remaining: -1}
	l.Outcome = record.OK
	switch {
	case w.compacted > l.version && (len(l.Pages) > 0 || l.Match == record.MatchExact):
		l.Outcome, l.Status, l.Error = record.Refused, 410, "expired"
	case w.IntN(20) == 0:
		l.Outcome, l.Error = record.Unknown, "timed out"
	default:
		n := len(l.rest)
		if l.Limit > 0 && n > l.Limit {
			n, p.Continued = l.Limit, true
		}
		p.Revision, p.Items = fmt.Sprint(l.version), n
		if w.api == facts.APIEtcd && (len(l.Pages) > 0 || l.Match == record.MatchExact) {
			p.Revision = fmt.Sprint(w.rev) // the newest one, with the response
		}
		l.Items, l.rest = append(l.Items, l.rest[:n]...), l.rest[n:]
	}
	l.Pages = append(l.Pages, p)
	if p.Continued {
		return
	}
	l.Return = w.now
	w.lists = slices.Delete(w.lists, i, i+1)
	w.run.Lists = append(w.run.Lists, record.Timed[record.List]{At: w.now, V: l.List})
	if l.Outcome == record.OK {
		w.known = append(w.known, l.version)
	}
}
