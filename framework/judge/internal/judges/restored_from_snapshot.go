package judges

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var restoredFromSnapshot = Definition{Doc{
	Name:       "restored-from-snapshot",
	Guarantee:  "After a restore from a snapshot, the state is that of one moment, with all that was acknowledged before the snapshot; no client receives a lower version than one that it saw before; and informers that ran throughout show what exists.",
	Source:     "Control plane resilience overview (catastrophic failure); etcd disaster recovery guide (revision bump)",
	NeedsFault: true,
}, judgeRestoredFromSnapshot}

// restoreLeast is how many writes are needed before a snapshot, and after the restore, for a
// result.
const restoreLeast = 10

// informed is one ConfigMap that informers see.
type informed struct {
	record.Op
	number string
}

func judgeRestoredFromSnapshot(m *facts.Case) Finding {
	// The snapshot is taken after the step started, and the call is for the restore.
	called, back := record.Nanos(0), m.Fault.Effect()
	for _, p := range m.Run.Phases {
		if p.At <= m.Fault.Injected.Called {
			called = p.At
		}
	}
	// etcd was down from the first write on that failed; what was acknowledged from then
	// until the proof of the restore may be of either side.
	down := back
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == facts.PurposeInformedWrite && op.Outcome != record.OK && op.Call >= called {
			down = min(down, op.Call)
		}
	}
	var before, between, after []informed
	seen := uint64(0) // the newest version before the restore
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose == facts.PurposeInformedVersion && op.Return < called {
			seen = max(seen, record.Number(op.Revision))
		}
		if op.Purpose != facts.PurposeInformedWrite || op.Outcome != record.OK {
			continue
		}
		w := informed{op, op.Key[strings.LastIndexByte(op.Key, '-')+1:]}
		switch {
		case op.Return < called:
			before = append(before, w)
			seen = max(seen, record.Number(op.Revision))
		case op.Call >= back:
			after = append(after, w)
		case op.Return <= down:
			between = append(between, w)
		}
	}
	if len(before) < restoreLeast || len(after) < restoreLeast {
		return Inconclusive("%d writes were acknowledged before the snapshot and %d after the restore, and %d each are required", len(before), len(after), restoreLeast)
	}
	lists, stores := informedLast(m, facts.PurposeInformedList), informedLast(m, facts.PurposeInformedStore)
	if len(lists) == 0 {
		return Inconclusive("no API server answered a list at the end")
	}
	lost := 0
	for _, l := range lists {
		has := strings.Fields(l.Value)
		gone := func(w informed) bool { return !slices.Contains(has, w.number) }
		if i := slices.IndexFunc(before, gone); i >= 0 {
			return Failed("What was acknowledged before the snapshot must be there after the restore: %s, created %s, is not in the list through %s.",
				before[i].Key, text.At(before[i].Return), l.Entrance).Shows(text.Describe(before[i].Op))
		}
		if i := slices.IndexFunc(after, gone); i >= 0 {
			return Failed("What is acknowledged after the restore must stay: %s, created %s, is not in the list through %s.",
				after[i].Key, text.At(after[i].Return), l.Entrance).Shows(text.Describe(after[i].Op))
		}
		if f := cmp.Or(oneMoment(between, gone), sameMoment(between, lists[0], l)); f != nil {
			return *f
		}
		lost = 0
		for _, w := range between {
			if gone(w) {
				lost++
				seen = max(seen, record.Number(w.Revision))
			}
		}
	}
	if lost == 0 {
		return Inconclusive("nothing was acknowledged between the snapshot and the restore, so no effect of the restore can be seen")
	}
	for _, w := range after {
		if record.Number(w.Revision) <= seen {
			return Failed("Versions must never go back for clients: %s was created as version %s %s, after the restore, and clients had seen %d before.",
				w.Key, w.Revision, text.At(w.Return), seen).Over(w.Call, w.Return).Shows(text.Describe(w.Op))
		}
	}
	newest := map[string]uint64{}
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == facts.PurposeInformedVersion && op.Revision != "" {
			if n := record.Number(op.Revision); n < newest[op.Client] {
				return Failed("Versions must never go back for clients: %s was at version %d, and %s at %d.", op.Client, newest[op.Client], text.At(op.Call), n).
					Over(called, op.Call).Shows(text.Describe(op))
			}
			newest[op.Client] = record.Number(op.Revision)
		}
	}
	for _, l := range lists {
		i := slices.IndexFunc(stores, func(s record.Op) bool { return s.Entrance == l.Entrance })
		if i < 0 {
			return Inconclusive("the record does not show what the informer of %s has at the end", l.Entrance)
		}
		if stores[i].Value != l.Value {
			return Failed("An informer must show what exists after a restore: that of %s has %d ConfigMaps, and a quorum list %d, %s after the writes ended.",
				l.Entrance, len(strings.Fields(stores[i].Value)), len(strings.Fields(l.Value)), text.Short(text.Span(stores[i].Call, stores[i].Return))).Rests(stores[i].Call, stores[i].Return)
		}
	}
	for _, server := range m.APIServers() {
		if !slices.ContainsFunc(lists, func(l record.Op) bool { return l.Entrance == server }) {
			return Inconclusive("the API server on %s answered no list at the end, so the state that it serves is not known", server)
		}
	}
	return Passed("After the restore, all %d writes from before the snapshot were there, and %d later ones were not: the state of one moment. No version went back for %d informers, and each shows what exists.",
		len(before), lost, len(stores)).counted("%d writes, %d lost", len(before)+len(between)+len(after), lost)
}

// oneMoment checks that a snapshot has exactly the first of the writes around it.
func oneMoment(around []informed, gone func(informed) bool) *Finding {
	var newest *informed
	for _, w := range around {
		if !gone(w) && (newest == nil || record.Number(w.Revision) > record.Number(newest.Revision)) {
			newest = &w
		}
	}
	for _, w := range around {
		if newest != nil && gone(w) && record.Number(w.Revision) < record.Number(newest.Revision) {
			return Failed("The state after a restore must be that of one moment: %s of version %s is gone, and %s of version %s is there.",
				w.Key, w.Revision, newest.Key, newest.Revision).Shows(text.Describe(w.Op), text.Describe(newest.Op)).problem()
		}
	}
	return nil
}

// sameMoment checks that two lists, made when no client wrote any more, have the same of the
// acknowledged writes around a snapshot.
func sameMoment(around []informed, a, b record.Op) *Finding {
	inA, inB := strings.Fields(a.Value), strings.Fields(b.Value)
	for _, w := range around {
		has, lacks := a.Entrance, b.Entrance
		switch in := slices.Contains(inA, w.number); {
		case in == slices.Contains(inB, w.number):
			continue
		case !in:
			has, lacks = lacks, has
		}
		return Failed("The state after a restore must be that of one moment: %s of version %s is in the list through %s, and not in that through %s.",
			w.Key, w.Revision, has, lacks).Shows(text.Describe(w.Op)).problem()
	}
	return nil
}

// informedLast returns the last answered operation of a purpose through each entrance.
func informedLast(m *facts.Case, purpose string) (all []record.Op) {
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != purpose || op.Outcome != record.OK {
			continue
		}
		all = append(slices.DeleteFunc(all, func(other record.Op) bool { return other.Entrance == op.Entrance }), op)
	}
	return all
}
