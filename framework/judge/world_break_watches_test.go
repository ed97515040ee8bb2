package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// watchDamages are those of watches.
var watchDamages = []damage{
	{name: "an event is dropped", must: "watch-reliable", may: []string{"watch-resumable", "watch-bookmark", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(past)
		return ok && b.remove(p)
	}},
	{name: "the first event of a watch that goes on is dropped", must: "watch-resumable", may: []string{"watch-reliable", "watch-bookmark", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			return i == 0 && s.from() > 0 && len(s.messages) > 1 && s.messages[1].version > s.messages[0].version
		})
		return ok && b.remove(p)
	}},
	{name: "the last event before a bookmark is dropped", must: "watch-bookmark", may: []string{"watch-reliable", "watch-resumable", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool { return firm(s, i) && i+1 < len(s.messages) && s.messages[i+1].bookmark() })
		return ok && b.remove(p)
	}},
	{name: "an event comes twice", must: "watch-unique", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*stream, int) bool { return true })
		return ok && b.insert(p, *p.event())
	}},
	{name: "an event comes again later", must: "watch-unique", may: []string{"watch-ordered", "watch-bookmark", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool { return i > s.begin+1 && !s.messages[i-2].bookmark() })
		return ok && b.insert(p, *p.s.messages[p.i-2].Event)
	}},
	{name: "a watch that goes on repeats", must: "watch-unique", may: []string{"watch-resumable"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			n := 0
			if s.previous != nil && s.previous.from() > 0 {
				n = len(s.previous.messages)
			}
			return i == 0 && s.from() > 0 && n > 0 && s.messages[0].version > s.from() && !s.previous.messages[n-1].bookmark() && s.previous.messages[n-1].version <= s.from()
		})
		return ok && b.insert(p, *p.s.previous.messages[len(p.s.previous.messages)-1].Event)
	}},
	{name: "two events are swapped", must: "watch-ordered", may: []string{"watch-atomic", "watch-bookmark"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			return firm(s, i) && i+1 < len(s.messages) && !s.messages[i].bookmark() && !s.messages[i+1].bookmark() && s.messages[i].version < s.messages[i+1].version
		})
		if !ok {
			return false
		}
		x, y := p.event(), p.s.messages[p.i+1].Event
		*x, *y = *y, *x
		x.Seen, y.Seen, x.Batch, y.Batch = y.Seen, x.Seen, y.Batch, x.Batch
		return true
	}},
	{name: "a value that nobody wrote", must: "watch-content", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*stream, int) bool { return true })
		if ok {
			p.event().Value = "nobody's"
		}
		return ok
	}},
	{name: "an older value of the key", must: "watch-content", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && old.by.op.Outcome == record.OK
		})
		if ok {
			old, _ := sureBefore(p.s, p.i)
			p.event().Value = old.value
		}
		return ok
	}},
	{name: "another group than was written", api: apiKubernetes, must: "watch-content", may: []string{"watch-filter"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*stream, int) bool { return true })
		if ok {
			p.event().Group = "z"
		}
		return ok
	}},
	{name: "a deleted object with another value", api: apiKubernetes, must: "watch-content", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && s.messages[i].Type == record.EventDeleted && s.messages[i].version >= s.timeline.first
		})
		if ok {
			p.event().Value = "nobody's"
		}
		return ok
	}},
	{name: "a wrong flag", must: "watch-flags", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			_, sure := sureBefore(s, i)
			return sure && s.watch.Group == ""
		})
		if ok {
			p.event().Type = map[record.EventType]record.EventType{record.EventAdded: record.EventModified, record.EventModified: record.EventAdded}[p.event().Type]
		}
		return ok
	}},
	{name: "a wrong create revision", api: apiEtcd, must: "watch-flags", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			e, _, known := s.shown(s.messages[i])
			return known && e.count > 2
		})
		if ok {
			p.event().CreateRevision = fmt.Sprint(number(p.event().CreateRevision) + 1)
			p.event().Version--
		}
		return ok
	}},
	{name: "a modification shown as a deletion", must: "watch-flags", may: []string{"watch-content"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			e, _, known := s.shown(s.messages[i])
			return known && !e.crossing
		})
		if ok {
			p.event().Type = record.EventDeleted
		}
		return ok
	}},
	{name: "a bookmark moves forward", must: "watch-bookmark", may: []string{"watch-reliable"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			return i+1 < len(s.messages) && s.messages[i].bookmark() && b.strong(*s.messages[i+1].Event)
		})
		if ok {
			p.event().Revision = p.s.messages[p.i+1].Revision
		}
		return ok
	}},
	{name: "a bookmark moves back", must: "watch-bookmark", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool { return i > s.begin && s.messages[i].bookmark() })
		if ok {
			p.event().Revision = fmt.Sprint(p.s.messages[p.i-1].version - 1)
		}
		return ok
	}},
	{name: "a streaming list lacks an object", api: apiKubernetes, must: "watch-bookmark", do: func(b *broken) bool {
		for at := range b.run.Events {
			e := &b.run.Events[at].V
			for _, s := range b.c.streams {
				i := slices.IndexFunc(s.messages, func(m message) bool { return m.Event == e })
				if i < 0 || !s.watch.Initial || s.base == 0 || i >= s.begin || !b.strong(*e) {
					continue
				}
				c, known := s.timeline.lines[e.Key].at(s.base)
				if known && c != nil && c.revision == number(e.Revision) {
					return b.remove(spot{s, i, at})
				}
			}
		}
		return false
	}},
	{name: "a streaming list from the past", api: apiKubernetes, must: "watch-bookmark", may: []string{"watch-reliable"}, do: func(b *broken) bool {
		for _, s := range b.c.streams {
			if w := s.timeline.newestBefore(s.watch.Called); s.watch.Initial && s.watch.From == "" && s.base > 0 && w != nil && w.revision > s.messages[0].version && s.begin == 2 {
				s.messages[1].Revision = s.messages[0].Revision
				return true
			}
		}
		return false
	}},
	{name: "the state with which a watch began lacks an object", api: apiKubernetes, must: "watch-reliable", do: func(b *broken) bool {
		for at := range b.run.Events {
			e := &b.run.Events[at].V
			for _, s := range b.c.streams {
				i := slices.IndexFunc(s.messages, func(m message) bool { return m.Event == e })
				if i < 0 || !s.withState() || s.watch.Initial || s.base == 0 || i >= s.begin || !b.strong(*e) || s.begin == len(s.messages) || s.messages[s.begin].Type == record.EventAdded {
					continue
				}
				c, known := s.timeline.lines[e.Key].at(s.base)
				if known && c != nil && c.revision == number(e.Revision) && s.messages[s.begin].Key != e.Key {
					return b.remove(spot{s, i, at})
				}
			}
		}
		return false
	}},
	{name: "an object of another name", must: "watch-filter", may: []string{"watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool { return s.watch.Key != "" && i+1 < len(s.messages) })
		if !ok {
			return false
		}
		return b.stranger(p, func(c simChange) bool { return c.key != p.s.watch.Key })
	}},
	{name: "an object of another group", must: "watch-filter", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool { return s.watch.Group != "" && s.watch.Key == "" && i+1 < len(s.messages) })
		if !ok {
			return false
		}
		return b.stranger(p, func(c simChange) bool {
			return c.pair != nil && c.pair.group != p.s.watch.Group && (c.old == nil || c.old.group != p.s.watch.Group)
		})
	}},
	{name: "an object that leaves its group comes as modified", api: apiKubernetes, must: "watch-filter", may: []string{"watch-content", "watch-flags"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			e, _, known := s.shown(s.messages[i])
			return known && e.crossing && e.typ == record.EventDeleted && e.by.op.Outcome == record.OK
		})
		if ok {
			c := b.changeOf(p.s.messages[p.i].id())
			p.event().Type, p.event().Value, p.event().Group = record.EventModified, c.pair.value, c.pair.group
		}
		return ok
	}},
	{name: "an object that enters its group comes as modified", api: apiKubernetes, must: "watch-filter", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			e, _, known := s.shown(s.messages[i])
			return known && e.crossing
		})
		if ok {
			p.event().Type = record.EventModified
		}
		return ok
	}},
	{name: "a watch from a version shows what was before", must: "watch-resumable", may: []string{"watch-unique"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool { return i == 0 && s.from() > 0 })
		if !ok {
			return false
		}
		for _, c := range b.history {
			if e, shown := eventOf(c, b.api, p.s.scope()); shown && c.rev <= p.s.from() && b.strong(e) {
				return b.insert(p, e)
			}
		}
		return false
	}},
	{name: "a watch of forgotten history is accepted with a gap", must: "watch-compacted", may: []string{"watch-reliable", "watch-resumable", "watch-bookmark", "watch-atomic"}, do: acceptForgotten},
	{name: "a transaction comes in two responses", api: apiEtcd, must: "watch-atomic", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			return i > 0 && s.messages[i].version == s.messages[i-1].version && !s.messages[i].bookmark() && !s.messages[i-1].bookmark()
		})
		if ok {
			for _, m := range p.s.messages[p.i:] {
				m.Batch++
			}
		}
		return ok
	}},
	{name: "half a transaction", api: apiEtcd, must: "watch-atomic", may: []string{"watch-reliable", "watch-bookmark", "watch-resumable", "watch-compacted"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *stream, i int) bool {
			return i > s.begin && s.messages[i].version == s.messages[i-1].version && !s.messages[i-1].bookmark()
		})
		return ok && b.remove(p)
	}},
	{name: "a wrong previous value", api: apiEtcd, must: "watch-previous", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool { return number(s.messages[i].PreviousRevision) >= s.timeline.first })
		if ok {
			p.event().PreviousValue = "nobody's"
		}
		return ok
	}},
	{name: "the pair before the previous one", api: apiEtcd, must: "watch-previous", do: func(b *broken) bool {
		p, ok := b.spot(func(s *stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && s.messages[i].PreviousRevision != "" && old.count > 1 && b.changeOf(old.versionOf).old != nil
		})
		if ok {
			old, _ := sureBefore(p.s, p.i)
			older := b.changeOf(old.versionOf).old
			p.event().PreviousValue, p.event().PreviousRevision = older.value, fmt.Sprint(older.rev)
		}
		return ok
	}},
}

// stranger inserts after a message a change that the watch is not to show: one between
// it and the next.
func (b *broken) stranger(p spot, fits func(simChange) bool) bool {
	next := spot{p.s, p.i + 1, slices.IndexFunc(b.run.Events, func(e record.Timed[record.Event]) bool { return e.V == *p.s.messages[p.i+1].Event })}
	for _, c := range b.history {
		if p.s.messages[p.i].version < c.rev && c.rev < p.s.messages[p.i+1].version && fits(c) && c.pair != nil {
			e, _ := eventOf(c, b.api, scope{})
			e.PreviousValue, e.PreviousRevision = "", ""
			line := p.s.timeline.lines[c.key]
			if j, ok := line.find(c.rev); ok && line.sure(j) && b.strong(e) {
				return b.insert(next, e)
			}
		}
	}
	return false
}

// acceptForgotten lets a watch that was refused be accepted, and show only what came
// some changes later.
func acceptForgotten(b *broken) bool {
	for i := range b.run.Watches {
		n := &b.run.Watches[i].V
		if n.Phase != record.WatchRefused || !b.c.goneBefore(n.Called, number(n.From)) {
			continue
		}
		list := b.c.timelines[collectionOf{b.api, "things"}].between(scope{n.Key, n.Group}, number(n.From), never)
		if len(list) < 3 || list[0].revision == list[1].revision || list[0].by == nil || list[0].by.op.Outcome != record.OK || !list[0].present || !list[1].present {
			continue
		}
		e, _ := eventOf(b.changeOf(list[1].versionOf), b.api, scope{n.Key, n.Group})
		e.PreviousValue, e.PreviousRevision = "", ""
		e.Watch, e.Seen = n.ID, n.Seen
		n.Phase, n.Status, n.Error, n.Compacted = record.WatchOpened, 0, "", ""
		b.run.Events = append(b.run.Events, record.Timed[record.Event]{At: e.Seen, V: e})
		return true
	}
	return false
}
