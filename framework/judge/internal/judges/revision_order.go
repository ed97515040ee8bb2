package judges

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// revisionOrder is linearizability across the API: resourceVersions are revisions of one store
// and so one order of all writes, on whatever key. Linearizability is checked per key and cannot
// see that two keys disagree on the order.
var revisionOrder = Definition{Doc{
	Name:      "revision-order",
	Invariant: "HA-INV-003",
	Lasting:   true,
	Guarantee: "The order of resourceVersions agrees with real time over all keys of a store: a write has a greater version than any that was shown before it was called, and a quorum list, or a linearizable read of etcd (its header), never returns a smaller one; a quorum read of a key never returns a smaller version than one already shown for that key.",
	Source:    "etcd API guarantees (revisions; strict serializability); Kubernetes API concepts (resource versions)",
}, judgeRevisionOrder}

// version is a revision in the response to a request.
type version struct {
	facts.Mark[shower]        // when the request was called
	api                string // API and, if it may differ, store; see also keyOf
	// equal reports that the response may have a revision that was shown before: a list, a read,
	// or the revocation of a lease, which may have found nothing to delete.
	equal bool
}

// shower is the source of a version: one of these.
type shower struct {
	op    *record.Op
	list  *record.List
	event *record.Event
}

func judgeRevisionOrder(m *facts.Case) Finding {
	shown := versionsShown(m.Run)
	compared, broken := 0, 0
	var before, after *facts.Mark[shower] // the first that are in the wrong order
	for _, a := range versionsAsked(m.Run) {
		s := shown[a.api].Before(a.At)
		if s == nil {
			continue
		}
		compared++
		if s.Revision < a.Revision || a.equal && s.Revision == a.Revision {
			continue
		}
		broken++
		if after == nil || a.At < after.At {
			before, after = s, &a.Mark
		}
	}
	switch {
	case after != nil:
		return Failed("Versions must follow real time: %s, called %s, has version %d, although version %d had been shown %s by %s.",
			after.By, text.At(after.At), after.Revision, before.Revision, text.At(before.At), before.By).
			counted("%d of %d versions", broken, compared).
			Shows(before.By.String()+", "+text.At(before.At), after.By.String()+", called "+text.At(after.At)).
			exhibits(facts.Exhibit("A later operation does not have a greater version", before.By.span(), facts.Blamed(after.By.span())))
	case compared == 0:
		return notApplicable("The record has no write or quorum list whose version could be compared with an earlier one.")
	}
	return Passed("The versions of acknowledged writes, quorum lists and headers follow real time over all keys (%s).%s", text.Plural(compared, "version"), onlyVersions(m.Run)).
		number(compared, "version")
}

// onlyVersions says that nothing else was compared of etcd, if clients could have read and written
// it and did not: etcd-linearizable then judges nothing, and this judge alone settles the
// requirement.
func onlyVersions(run *record.Run) string {
	asked := func(op record.Op) bool {
		return op.API == facts.APIEtcd && (facts.IsWrite(op.Type) || facts.IsQuorumRead(op))
	}
	if slices.Contains(run.Meta.NoAccess, record.EtcdMembers) || slices.ContainsFunc(facts.OwnOps(run), asked) {
		return ""
	}
	return " Only versions were compared: no client read or wrote etcd itself."
}

func (v shower) String() string {
	switch {
	case v.op != nil:
		return v.op.Client + "'s " + string(v.op.Type) + " of " + v.op.Key + " through " + v.op.Entrance
	case v.list != nil:
		return v.list.Client + "'s list of " + v.list.Collection + " through " + v.list.Entrance
	}
	return "the " + string(v.event.Type) + " event of watch " + v.event.Watch
}

func (v shower) span() verdict.Span {
	switch {
	case v.op != nil:
		return facts.OpSpan(*v.op)
	case v.list != nil:
		return facts.ListSpan(*v.list)
	}
	return facts.EventSpan(*v.event)
}

// storeOf names the store that orders the revisions of an operation. API servers may keep each
// kind of object in another etcd (--etcd-servers-overrides), so that versions of one kind say
// nothing about those of another. Registers are ConfigMaps; the keys of other kinds begin with
// the kind.
func storeOf(op *record.Op) string {
	if kind, _, other := strings.Cut(op.Key, "/"); other && op.API == facts.APIKubernetes {
		return op.API + " " + kind
	}
	return op.API
}

// keyOf names a key of a store. A read of one key has the version of its last change, which is
// comparable only with what was shown of that key.
func keyOf(api, key string) string { return api + "\x00" + key }

// versionsShown returns the versions that existed when they were shown, by API: whatever a read,
// list or watch shows, however old, comes from an earlier write.
func versionsShown(run *record.Run) map[string]facts.Watermark[shower] {
	shown := map[string][]facts.Mark[shower]{}
	add := func(api, revision string, at record.Nanos, by shower) {
		if n := record.Number(revision); n > 0 {
			shown[api] = append(shown[api], facts.Mark[shower]{At: at, Revision: n, By: by})
		}
	}
	for i := range run.Ops {
		op := &run.Ops[i].V
		if op.Outcome == record.OK {
			add(storeOf(op), op.Revision, op.Return, shower{op: op})
		}
		if op.Outcome != record.Unknown {
			add(op.API, op.Header, op.Return, shower{op: op})
		}
	}
	own := facts.OwnOps(run)
	for i := range own {
		if op := &own[i]; op.Outcome == record.OK {
			add(keyOf(op.API, op.Key), op.Revision, op.Return, shower{op: op})
		}
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		for _, page := range l.Pages {
			add(l.API, page.Revision, page.Return, shower{list: l})
		}
		for _, item := range l.Items {
			add(keyOf(l.API, item.Key), item.Revision, l.Return, shower{list: l})
		}
	}
	apis := map[string]string{}
	for _, w := range run.Watches {
		apis[w.V.ID] = w.V.API
	}
	for i := range run.Events {
		if e := &run.Events[i].V; apis[e.Watch] != "" {
			add(apis[e.Watch], e.Revision, e.Seen, shower{event: e})
			add(keyOf(apis[e.Watch], e.Key), e.Revision, e.Seen, shower{event: e})
		}
	}
	all := map[string]facts.Watermark[shower]{}
	for api, marks := range shown {
		all[api] = facts.NewWatermark(marks)
	}
	return all
}

// versionsAsked returns the versions of acknowledged writes, of quorum reads and lists, and of
// etcd's responses with a header after a quorum was consulted. A write that changes nothing
// returns the existing version; if several wrote the same value, it is unknown which of them
// changed anything. The response to a delete through the Kubernetes API has no version of its
// own.
func versionsAsked(run *record.Run) (all []version) {
	add := func(api string, revision uint64, called record.Nanos, equal bool, by shower) {
		if revision > 0 {
			all = append(all, version{facts.Mark[shower]{At: called, Revision: revision, By: by}, api, equal})
		}
	}
	books := facts.NewWriteLog(run)
	for i := range run.Ops {
		op := &run.Ops[i].V
		if op.Outcome != record.Unknown && (facts.IsWrite(op.Type) || facts.IsQuorumRead(*op)) {
			add(op.API, record.Number(op.Header), op.Call, true, shower{op: op})
		}
		if op.Outcome != record.OK || !facts.IsWrite(op.Type) || op.Purpose == "ready" {
			continue
		}
		deletes := op.Type == record.OpDelete
		if deletes && op.API == facts.APIKubernetes || !deletes && (op.Revision == op.Expect || len(books.Of(*op).Sources[op.Value]) > 1) {
			continue
		}
		add(storeOf(op), record.Number(op.Revision), op.Call, deletes && op.Collection == "", shower{op: op})
	}
	own := facts.OwnOps(run)
	for i := range own {
		if op := &own[i]; op.Outcome == record.OK && facts.IsQuorumRead(*op) && op.Found {
			add(keyOf(op.API, op.Key), record.Number(op.Revision), op.Call, true, shower{op: op})
		}
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		if l.Outcome == record.OK && l.Match == record.MatchUnset && len(l.Pages) > 0 {
			add(l.API, record.Number(l.Pages[0].Revision), l.Call, true, shower{list: l})
		}
	}
	return all
}
