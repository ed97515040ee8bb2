package facts

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

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
func (m *Matter) QuorumLists(api string) (all []QuorumList) {
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
