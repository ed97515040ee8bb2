package facts

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Listing is a list with the timeline of its collection.
type Listing struct {
	*record.List
	Timeline *Timeline
}

// Version is the version of the state that the list shows, 0 if the record does not say. If etcd
// is asked for the state at a revision, it also returns its newest one.
func (l Listing) Version() uint64 {
	if l.API == APIEtcd && l.Match == record.MatchExact {
		return record.Number(l.Asked)
	}
	return record.Number(l.Pages[0].Revision)
}

// oneVersion reports whether all pages have the same version. etcd returns its newest one with
// each.
func (l Listing) oneVersion() bool {
	return l.API == APIEtcd || !slices.ContainsFunc(l.Pages, func(p record.Page) bool { return p.Revision != l.Pages[0].Revision })
}

func (l Listing) name() string {
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
	return fmt.Sprintf("the %s by %s through %s %s", what, l.Client, l.Entrance, text.At(l.Call))
}

func (l Listing) span() verdict.Span {
	return verdict.Span{Lane: l.Client, Label: fmt.Sprintf("list %s → version %s, %d items", l.Match, l.Pages[0].Revision, len(l.Items)), From: l.Call, To: l.Return, Culprit: true}
}

func (l Listing) Breach(what string, writes ...*Write) []Breach {
	b := Breach{At: l.Return, What: l.name() + " " + what, Spans: []verdict.Span{l.span()}}
	for _, w := range writes {
		if w != nil {
			b.Evidence = append(b.Evidence, text.Describe(*w.Op))
			b.Spans = append(b.Spans, SpanOfWrite(w)...)
		}
	}
	return []Breach{b}
}

// Wrong finds errors in a list, given what clients had seen before.
func (l Listing) Wrong(known Watermark[string]) (breaches []Breach) {
	breaches = l.wrongVersion(known)
	if l.oneVersion() {
		breaches = append(breaches, l.WrongItems("")...)
	}
	if len(breaches) == 0 {
		return l.removedItem()
	}
	return breaches
}

// WrongItems finds where the items differ from the state at the list's version; last is the last
// key that the list reached, empty for all.
func (l Listing) WrongItems(last string) []Breach {
	for i := 1; i < len(l.Items); i++ {
		if a, b := l.Items[i-1].Key, l.Items[i].Key; a == b || a > b && (l.API == APIEtcd || len(l.Pages) > 1) {
			return l.Breach(fmt.Sprintf("has %s after %s", b, a))
		}
	}
	d := l.Timeline.compare(Scope{Group: l.Group}, l.Version(), l.Items, last)
	if d == nil {
		return nil
	}
	var w *Write
	if d.change != nil {
		w = d.change.By
	}
	return l.Breach(fmt.Sprintf("gave version %d, but is not its state: %s", l.Version(), d.what), w)
}

// removedItem finds an item whose deletion had been acknowledged before the newest state was
// requested.
func (l Listing) removedItem() []Breach {
	if l.Match != record.MatchUnset {
		return nil
	}
	for _, item := range l.Items {
		if d := l.Timeline.removed(item, l.Call); d != nil {
			return l.Breach(fmt.Sprintf("has %s = %q, the deletion of which had been acknowledged to %s %s", item.Key, item.Value, d.Client, text.At(d.Return)), &Write{Op: d})
		}
	}
	return nil
}

func (l Listing) wrongVersion(known Watermark[string]) []Breach {
	v, asked := l.Version(), record.Number(l.Asked)
	switch {
	case l.Match == record.MatchNotOlderThan && v < asked, l.Match == record.MatchExact && v != asked:
		return l.Breach(fmt.Sprintf("gave version %d", v))
	case l.Match == record.MatchUnset:
		if w := l.Timeline.NewestBefore(l.Call); w != nil && w.Revision > v {
			return l.Breach(fmt.Sprintf("gave version %d, although version %d had been acknowledged to %s %s", v, w.Revision, w.Op.Client, text.At(w.Op.Return)), w)
		}
		if s := known.Before(l.Call); s != nil && s.Revision > v {
			// A version that changed nothing in the collection is not older.
			if newer := l.Timeline.Between(Scope{}, v, s.Revision); len(newer) > 0 {
				b := l.Breach(fmt.Sprintf("gave version %d and lacks %s, although version %d had been returned to %s %s", v, newer[0].Describe(), s.Revision, s.By, text.At(s.At)), newer[0].By)
				b[0].Spans = append(b[0].Spans, verdict.Span{Lane: s.By, Label: fmt.Sprintf("saw version %d", s.Revision), From: s.At, To: s.At})
				return b
			}
		}
	}
	return nil
}

// Witnesses returns the versions that reads and lists of each collection returned, and to which
// clients.
func (c *Collections) Witnesses(run *record.Run) map[*Timeline]Watermark[string] {
	returned := map[*Timeline][]Mark[string]{}
	for _, op := range record.Each(run.Ops) {
		if t := c.Timelines[CollectionOf{op.API, op.Collection}]; t != nil && op.Collection != "" && op.Type == record.OpGet && op.Outcome == record.OK && op.Found {
			returned[t] = append(returned[t], Mark[string]{op.Return, record.Number(op.Revision), op.Client})
		}
	}
	for _, l := range c.Lists {
		if l.Outcome == record.OK && len(l.Pages) > 0 {
			returned[l.Timeline] = append(returned[l.Timeline], Mark[string]{l.Return, l.Version(), l.Client})
		}
	}
	all := map[*Timeline]Watermark[string]{}
	for t, marks := range returned {
		all[t] = NewWatermark(marks)
	}
	return all
}

// QuorumList is a list that promises the newest state of a collection, or of a part of it.
type QuorumList struct {
	record.Op // common to its reads
	items     []record.Item
	scope     Scope
	Last      bool // made once the traffic had stopped
}

// Reads returns what a list says about some keys of its collection: about those that it has and,
// unless a group restricts it, about those that it does not have.
func (l QuorumList) Reads(keys []string) (all []record.Op) {
	items := make(map[string]*record.Item, len(l.items))
	for i := range l.items {
		items[l.items[i].Key] = &l.items[i]
	}
	for _, key := range keys {
		read := l.Op
		read.Key = key
		if item := items[key]; item != nil {
			read.Found, read.Value, read.Group, read.Revision = true, item.Value, item.Group, item.Revision
		} else if l.scope.Group != "" || l.scope.Key != "" && l.scope.Key != key {
			continue
		}
		all = append(all, read)
	}
	return all
}

// QuorumLists returns the answered lists of one API that promise the newest state: lists without
// a resourceVersion, whole or in pages of one version, and streaming lists without one. A paged
// list shows a moment during its first page.
func (m *Case) QuorumLists(api string) (all []QuorumList) {
	c := m.Collections()
	for _, l := range c.Lists {
		if l.API != api || l.Match != record.MatchUnset || l.Outcome != record.OK || len(l.Pages) == 0 || l.Version() == 0 || !l.oneVersion() {
			continue
		}
		op := record.Op{Client: l.Client, Entrance: l.Entrance, API: api, Type: record.OpGet, Collection: l.Collection, Purpose: text.PurposeListed,
			Call: l.Call, Return: l.Pages[0].Return, Outcome: record.OK}
		all = append(all, QuorumList{op, l.Items, Scope{Group: l.Group}, l.Purpose == PurposeFinalRead})
	}
	for _, s := range c.Streams {
		w := s.Watch
		if w.API != api || !w.Initial || w.From != "" || !s.Opened || s.Base == 0 || s.Begin == 0 {
			continue
		}
		op := record.Op{Client: w.Client, Entrance: w.Entrance, API: api, Type: record.OpGet, Collection: w.Collection, Purpose: text.PurposeStreamed,
			Call: w.Called, Return: s.Messages[s.Begin-1].Seen, Outcome: record.OK}
		all = append(all, QuorumList{op, s.state(s.Begin), s.Scope(), false})
	}
	return all
}
