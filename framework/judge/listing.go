package judge

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// listing is a list with the timeline of its collection.
type listing struct {
	*record.List
	timeline *timeline
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

// witness says that a client had seen a version at some time.
type witness struct {
	bound
	client string
}

// witnesses are what reads and lists returned of a collection, by time; each has the
// highest version so far.
type witnesses []witness

// before returns the highest version that was returned before a time.
func (w witnesses) before(at record.Nanos) witness {
	i := sort.Search(len(w), func(i int) bool { return w[i].at >= at })
	if i == 0 {
		return witness{}
	}
	return w[i-1]
}

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
