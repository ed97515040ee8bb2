package judges

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// revisionOrder is linearizability across the API: resourceVersions are revisions of
// one store and so one order of all writes, on whatever key. Linearizability is
// judged for each key alone and cannot see that two keys disagree on what was first.
func revisionOrder() Definition {
	return Definition{verdict.Doc{
		Name:      "revision-order",
		Invariant: "HA-INV-003",
		Lasting:   true,
		Guarantee: "The order of resourceVersions agrees with real time over all keys of a store: a write gets a greater version than any that was shown before it was called, and a quorum list, or a linearizable read of etcd (its header), returns none that is smaller.",
		Source:    "etcd API guarantees (revisions; strict serializability); Kubernetes API concepts (resource versions)",
	}, judgeRevisionOrder}
}

// version is a revision that somebody was shown, or that a request came back with.
type version struct {
	api      string // API and, where it may be another, store
	revision uint64
	at       record.Nanos // when it was shown, or when the request was called
	// equal reports that a request may come back with what was shown before: a list, a
	// read, or a delete, which may have found nothing to delete.
	equal bool
	op    *record.Op // what it comes from: one of these
	list  *record.List
	event *record.Event
}

func judgeRevisionOrder(m *facts.Matter) Finding {
	shown, asked := versionsShown(m.Run), versionsAsked(m.Run)
	byTime := func(a, b version) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(shown, byTime)
	slices.SortStableFunc(asked, byTime)
	newest := map[string]*version{} // by API
	compared, broken, next := 0, 0, 0
	var before, after *version // the first that are in the wrong order
	for i := range asked {
		a := &asked[i]
		for ; next < len(shown) && shown[next].at < a.at; next++ {
			if s := &shown[next]; newest[s.api] == nil || s.revision > newest[s.api].revision {
				newest[s.api] = s
			}
		}
		s := newest[a.api]
		if s == nil {
			continue
		}
		compared++
		if s.revision < a.revision || a.equal && s.revision == a.revision {
			continue
		}
		broken++
		if after == nil {
			before, after = s, a
		}
	}
	switch {
	case after != nil:
		return Failed("Versions must be in the order of time: %s, called %s, has version %d, although version %d had been shown %s by %s.",
			after.what(), text.At(after.at), after.revision, before.revision, text.At(before.at), before.what()).
			counted("%d of %d versions", broken, compared).
			Shows(before.what()+", "+text.At(before.at), after.what()+", called "+text.At(after.at)).
			exhibits(facts.Exhibit("What came later has no greater version", before.span(), facts.Blamed(after.span())))
	case compared == 0:
		return notApplicable("the record has no write or quorum list whose version could be held against an earlier one")
	}
	return Passed("The versions of acknowledged writes, quorum lists and headers are in the order of time over all keys (%s).", text.Plural(compared, "version")).
		counted("%d versions", compared)
}

func (v *version) what() string {
	switch {
	case v.op != nil:
		return v.op.Client + "'s " + string(v.op.Type) + " of " + v.op.Key + " through " + v.op.Entrance
	case v.list != nil:
		return v.list.Client + "'s list of " + v.list.Collection + " through " + v.list.Entrance
	}
	return "the " + string(v.event.Type) + " event of watch " + v.event.Watch
}

func (v *version) span() verdict.Span {
	switch {
	case v.op != nil:
		return facts.OpSpan(*v.op)
	case v.list != nil:
		return facts.ListSpan(*v.list)
	}
	return facts.EventSpan(*v.event)
}

// storeOf names what orders the revisions of an operation. API servers may keep each kind
// of object in another etcd (--etcd-servers-overrides), so that versions of one kind say
// nothing of those of another. Registers are ConfigMaps; the keys of other kinds begin with
// the kind.
func storeOf(op *record.Op) string {
	if kind, _, other := strings.Cut(op.Key, "/"); other && op.API == facts.APIKubernetes {
		return op.API + " " + kind
	}
	return op.API
}

// versionsShown are those that had been given when they were shown: what any read,
// list or watch shows, however old, is of a write that was made before.
func versionsShown(run *record.Run) (all []version) {
	add := func(revision string, v version) {
		if n, err := strconv.ParseUint(revision, 10, 64); err == nil && n > 0 {
			v.revision = n
			all = append(all, v)
		}
	}
	for i := range run.Ops {
		if op := &run.Ops[i].V; op.Outcome == record.OK {
			add(op.Revision, version{api: storeOf(op), at: op.Return, op: op})
		}
		if op := &run.Ops[i].V; op.Outcome != record.Unknown {
			add(op.Header, version{api: op.API, at: op.Return, op: op})
		}
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		for _, page := range l.Pages {
			add(page.Revision, version{api: l.API, at: page.Return, list: l})
		}
	}
	apis := map[string]string{}
	for _, w := range run.Watches {
		apis[w.V.ID] = w.V.API
	}
	for i := range run.Events {
		if e := &run.Events[i].V; apis[e.Watch] != "" {
			add(e.Revision, version{api: apis[e.Watch], at: e.Seen, event: e})
		}
	}
	return all
}

// versionsAsked are those of acknowledged writes, of quorum lists, and of what etcd
// answered with a header after a quorum had been asked. A write that
// changes nothing gets the version that was there; where several wrote one value,
// nobody can tell which of them changed anything. The answer to a delete through the
// Kubernetes API has no version of its own.
func versionsAsked(run *record.Run) (all []version) {
	books := facts.NewWriteLog(run)
	for i := range run.Ops {
		op := &run.Ops[i].V
		if header := facts.Number(op.Header); header > 0 && op.Outcome != record.Unknown && (facts.IsWrite(op.Type) || facts.IsQuorumRead(*op)) {
			all = append(all, version{api: op.API, revision: header, at: op.Call, equal: true, op: op})
		}
		n, ok := facts.Revision(*op)
		if !ok || op.Outcome != record.OK || !facts.IsWrite(op.Type) || op.Purpose == "ready" {
			continue
		}
		deletes := op.Type == record.OpDelete
		if deletes && op.API == facts.APIKubernetes || !deletes && (op.Revision == op.Expect || len(books.Of(*op).Sources[op.Value]) > 1) {
			continue
		}
		all = append(all, version{api: storeOf(op), revision: n, at: op.Call, equal: deletes, op: op})
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		if l.Outcome != record.OK || l.Match != record.MatchUnset || len(l.Pages) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(l.Pages[0].Revision, 10, 64); err == nil && n > 0 {
			all = append(all, version{api: l.API, revision: n, at: l.Call, equal: true, list: l})
		}
	}
	return all
}
