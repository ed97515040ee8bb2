package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// quorumList is a list that promises the newest state of a collection, or of a part of it.
type quorumList struct {
	record.Op // what its reads have in common
	items     []record.Item
	scope     scope
	last      bool // made once the traffic had stopped
}

// reads returns what a list says of some keys of its collection: of those that it has,
// and, unless a group restricts it, of those that it lacks.
func (l quorumList) reads(keys []string) (all []record.Op) {
	items := make(map[string]*record.Item, len(l.items))
	for i := range l.items {
		items[l.items[i].Key] = &l.items[i]
	}
	for _, key := range keys {
		read := l.Op
		read.Key = key
		if item := items[key]; item != nil {
			read.Found, read.Value, read.Group, read.Revision = true, item.Value, item.Group, item.Revision
		} else if l.scope.group != "" || l.scope.key != "" && l.scope.key != key {
			continue
		}
		all = append(all, read)
	}
	return all
}

// quorumLists returns the answered lists of one API that promise the newest state: lists
// without a resourceVersion, whole or in pages of one version, and streaming lists without
// one. A list in pages is of a moment of its first page.
func (m *matter) quorumLists(api string) (all []quorumList) {
	c := m.collections()
	for _, l := range c.lists {
		if l.API != api || l.Match != record.MatchUnset || l.Outcome != record.OK || len(l.Pages) == 0 || l.version() == 0 || !l.oneVersion() {
			continue
		}
		op := record.Op{Client: l.Client, Entrance: l.Entrance, API: api, Type: record.OpGet, Collection: l.Collection, Purpose: purposeListed,
			Call: l.Call, Return: l.Pages[0].Return, Outcome: record.OK}
		all = append(all, quorumList{op, l.Items, scope{group: l.Group}, l.Purpose == purposeFinalRead})
	}
	for _, s := range c.streams {
		w := s.watch
		if w.API != api || !w.Initial || w.From != "" || !s.opened || s.base == 0 || s.begin == 0 {
			continue
		}
		op := record.Op{Client: w.Client, Entrance: w.Entrance, API: api, Type: record.OpGet, Collection: w.Collection, Purpose: purposeStreamed,
			Call: w.Called, Return: s.messages[s.begin-1].Seen, Outcome: record.OK}
		all = append(all, quorumList{op, s.state(s.begin), s.scope(), false})
	}
	return all
}
