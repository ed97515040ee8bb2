package judge

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func listSemantics() definition {
	return definition{Doc{
		Name:      "list-semantics",
		Invariant: "HA-INV-004",
		Lasting:   true,
		Guarantee: "A list is exactly the state of the version that it gives. Without a resourceVersion that is no older than any write or deletion that was acknowledged, and any version that was read, before the call; " +
			"with NotOlderThan it is at least the version asked for, with Exact that version, and with 0 any version.",
		Source: "Kubernetes API concepts (resource versions); KEP-2340 (consistent reads from the cache); etcd API guarantees, key-value APIs",
		Params: map[string]string{
			"each": "how many lists of each kind every API server must have answered, since the check's fault where it names one: unset, 0, NotOlderThan, Exact, and paged (default 0)",
		},
	}, judgeListSemantics}
}

func judgeListSemantics(m *matter) finding {
	const must = "A list must be the state of a version that was asked for"
	each, err := strconv.Atoi(m.param("each", "0"))
	if err != nil || each < 0 {
		return inconclusive("the check cannot be judged: parameter each = %q is no number", m.check.Params["each"])
	}
	c := m.collections()
	known := c.witnesses(m.run)
	var breaches []breach
	judged, items := 0, 0
	for _, l := range c.lists {
		if l.Outcome != record.OK || len(l.Pages) == 0 {
			continue
		}
		judged++
		if l.version() == 0 {
			breaches = append(breaches, *l.breach(fmt.Sprintf("gave version %q, which is not a version", l.Pages[0].Revision)))
			continue
		}
		items += len(l.Items)
		breaches = append(breaches, l.wrong(known[l.timeline])...)
	}
	if judged == 0 {
		return notApplicable("the record has no list of a collection that was answered")
	}
	of := fmt.Sprintf("%d lists, %d items", judged, items)
	if missing := m.fewLists(c, each); missing != "" && len(breaches) == 0 {
		return inconclusive("%s, fewer than the %d that it takes to say anything", missing, each)
	}
	return conclude(must, fmt.Sprintf("%s: it holds for %s.", must, of), of, breaches)
}

// fewLists names an API server that answered fewer lists of some kind than each since
// the check's fault, or is empty.
func (m *matter) fewLists(c *collections, each int) string {
	type kind struct {
		entrance string
		match    record.ListMatch
	}
	const paged = "paged"
	from := record.Nanos(0)
	if m.fault != nil {
		from = m.fault.effect()
	}
	answered := map[kind]int{}
	for _, l := range c.lists {
		if l.API != apiKubernetes || l.Outcome != record.OK || l.Call < from {
			continue
		}
		answered[kind{l.Entrance, l.Match}]++
		if len(l.Pages) > 1 {
			answered[kind{l.Entrance, paged}]++
		}
	}
	for _, e := range m.apiServers() {
		for _, match := range []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchNotOlderThan, record.MatchExact, paged} {
			if n := answered[kind{e, match}]; n < each {
				return fmt.Sprintf("%s answered %s (%s)", e, plural(n, "list"), match)
			}
		}
	}
	return ""
}

// version is that of which the list is the state, 0 where the record does not say. An
// etcd that is asked for the state of a revision answers with its newest one beside it.
func (l listing) version() uint64 {
	if l.API == apiEtcd && l.Match == record.MatchExact {
		return number(l.Asked)
	}
	return number(l.Pages[0].Revision)
}

// oneVersion tells whether all pages give the same version. An etcd gives its newest
// one with each.
func (l listing) oneVersion() bool {
	return l.API == apiEtcd || !slices.ContainsFunc(l.Pages, func(p record.Page) bool { return p.Revision != l.Pages[0].Revision })
}

// name names a list for people.
func (l listing) name() string {
	of := l.Collection
	if l.Group != "" {
		of = fmt.Sprintf("group %s of %s", l.Group, of)
	}
	what := fmt.Sprintf("list (%s) of %s", l.Match, of)
	if l.Asked != "" {
		what = fmt.Sprintf("list (%s %s) of %s", l.Match, l.Asked, of)
	}
	if len(l.Pages) > 1 {
		what += fmt.Sprintf(" in %d pages", len(l.Pages))
	}
	return fmt.Sprintf("the %s by %s through %s %s", what, l.Client, l.Entrance, at(l.Call))
}

func (l listing) span() Span {
	return Span{Lane: l.Client, Label: fmt.Sprintf("list %s → version %s, %d items", l.Match, l.Pages[0].Revision, len(l.Items)), From: l.Call, To: l.Return, Culprit: true}
}

func (l listing) breach(what string, writes ...*write) *breach {
	b := &breach{at: l.Return, what: l.name() + " " + what, spans: []Span{l.span()}}
	for _, w := range writes {
		if w != nil {
			b.evidence = append(b.evidence, describe(*w.op))
			b.spans = append(b.spans, spanOfWrite(w)...)
		}
	}
	return b
}

// wrong finds what a list is not, by what clients had seen before.
func (l listing) wrong(known *witnesses) (breaches []breach) {
	if b := l.wrongVersion(known); b != nil {
		breaches = append(breaches, *b)
	}
	if b := l.wrongItems(""); b != nil && l.oneVersion() {
		breaches = append(breaches, *b)
	}
	if b := l.removedItem(); b != nil && len(breaches) == 0 {
		breaches = append(breaches, *b)
	}
	return breaches
}

// removedItem finds an item whose deletion had been acknowledged before the newest state
// was asked for.
func (l listing) removedItem() *breach {
	if l.Match != record.MatchUnset {
		return nil
	}
	for _, item := range l.Items {
		if d := l.timeline.removed(item, l.Call); d != nil {
			return l.breach(fmt.Sprintf("has %s = %q, the deletion of which had been acknowledged to %s %s", item.Key, item.Value, d.Client, at(d.Return)), &write{op: d})
		}
	}
	return nil
}

func (l listing) wrongVersion(known *witnesses) *breach {
	v := l.version()
	switch l.Match {
	case record.MatchNotOlderThan:
		if v < number(l.Asked) {
			return l.breach(fmt.Sprintf("gave version %d", v))
		}
	case record.MatchExact:
		if v != number(l.Asked) {
			return l.breach(fmt.Sprintf("gave version %d", v))
		}
	case record.MatchUnset:
		if w := l.timeline.newestBefore(l.Call); w != nil && w.revision > v {
			return l.breach(fmt.Sprintf("gave version %d, although version %d had been acknowledged to %s %s", v, w.revision, w.op.Client, at(w.op.Return)), w)
		}
		if s := known.before(l.Call); s.revision > v {
			// A version that changed nothing of the collection is no older.
			if newer := l.timeline.between(scope{}, v, s.revision); len(newer) > 0 {
				b := l.breach(fmt.Sprintf("gave version %d and lacks %s, although version %d had been returned to %s %s", v, newer[0].describe(), s.revision, s.client, at(s.at)), newer[0].by)
				b.spans = append(b.spans, Span{Lane: s.client, Label: fmt.Sprintf("saw version %d", s.revision), From: s.at, To: s.at})
				return b
			}
		}
	}
	return nil
}

// wrongItems finds where the items are not the state of the list's version; last is
// the key up to which the list came, empty for all.
func (l listing) wrongItems(last string) *breach {
	for i := 1; i < len(l.Items); i++ {
		if a, b := l.Items[i-1].Key, l.Items[i].Key; a == b || a > b && (l.API == apiEtcd || len(l.Pages) > 1) {
			return l.breach(fmt.Sprintf("has %s after %s", b, a))
		}
	}
	d := l.timeline.compare(scope{group: l.Group}, l.version(), l.Items, last)
	if d == nil {
		return nil
	}
	var w *write
	if d.change != nil {
		w = d.change.by
	}
	return l.breach(fmt.Sprintf("gave version %d, but is not its state: %s", l.version(), d.what), w)
}

// witness says that a client had seen a version at some time.
type witness struct {
	bound
	client string
}

// witnesses are what reads and lists returned of a collection, by time; each has the
// highest version so far.
type witnesses []witness

// witnesses returns what reads and lists returned of each collection.
func (c *collections) witnesses(run *record.Run) map[*timeline]*witnesses {
	all := map[*timeline]*witnesses{}
	for _, t := range c.timelines {
		all[t] = &witnesses{}
	}
	for i := range run.Ops {
		op := &run.Ops[i].V
		if t := c.timelines[collectionOf{op.API, op.Collection}]; t != nil && op.Collection != "" && op.Type == record.OpGet && op.Outcome == record.OK && op.Found {
			*all[t] = append(*all[t], witness{bound{op.Return, number(op.Revision)}, op.Client})
		}
	}
	for _, l := range c.lists {
		if l.Outcome == record.OK && len(l.Pages) > 0 {
			*all[l.timeline] = append(*all[l.timeline], witness{bound{l.Return, l.version()}, l.Client})
		}
	}
	for _, w := range all {
		slices.SortStableFunc(*w, func(a, b witness) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(*w); i++ {
			if (*w)[i-1].revision > (*w)[i].revision {
				(*w)[i] = witness{bound{(*w)[i].at, (*w)[i-1].revision}, (*w)[i-1].client}
			}
		}
	}
	return all
}

// before returns the highest version that was returned before a time.
func (w witnesses) before(at record.Nanos) witness {
	i := sort.Search(len(w), func(i int) bool { return w[i].at >= at })
	if i == 0 {
		return witness{}
	}
	return w[i-1]
}
