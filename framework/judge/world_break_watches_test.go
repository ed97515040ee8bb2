package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// watchDamages are those of watches.
var watchDamages = []damage{
	{name: "an event is dropped", must: "watch-reliable", may: []string{"watch-resumable", "watch-bookmark", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(past)
		return ok && b.remove(p)
	}},
	{name: "the first event of a watch that goes on is dropped", must: "watch-resumable", may: []string{"watch-reliable", "watch-bookmark", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			return i == 0 && s.From() > 0 && len(s.Messages) > 1 && s.Messages[1].Number > s.Messages[0].Number
		})
		return ok && b.remove(p)
	}},
	{name: "the last event before a bookmark is dropped", must: "watch-bookmark", may: []string{"watch-reliable", "watch-resumable", "watch-compacted", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			return firm(s, i) && i+1 < len(s.Messages) && s.Messages[i+1].Bookmark()
		})
		return ok && b.remove(p)
	}},
	{name: "an event comes twice", must: "watch-unique", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*facts.Stream, int) bool { return true })
		return ok && b.insert(p, *p.event())
	}},
	{name: "an event comes again later", must: "watch-unique", may: []string{"watch-ordered", "watch-bookmark", "watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool { return i > s.Begin+1 && !s.Messages[i-2].Bookmark() })
		return ok && b.insert(p, *p.s.Messages[p.i-2].Event)
	}},
	{name: "a watch that goes on repeats", must: "watch-unique", may: []string{"watch-resumable"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			n := 0
			if s.Previous != nil && s.Previous.From() > 0 {
				n = len(s.Previous.Messages)
			}
			return i == 0 && s.From() > 0 && n > 0 && s.Messages[0].Number > s.From() && !s.Previous.Messages[n-1].Bookmark() && s.Previous.Messages[n-1].Number <= s.From()
		})
		return ok && b.insert(p, *p.s.Previous.Messages[len(p.s.Previous.Messages)-1].Event)
	}},
	{name: "two events are swapped", must: "watch-ordered", may: []string{"watch-atomic", "watch-bookmark"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			return firm(s, i) && i+1 < len(s.Messages) && !s.Messages[i].Bookmark() && !s.Messages[i+1].Bookmark() && s.Messages[i].Number < s.Messages[i+1].Number
		})
		if !ok {
			return false
		}
		x, y := p.event(), p.s.Messages[p.i+1].Event
		*x, *y = *y, *x
		x.Seen, y.Seen, x.Batch, y.Batch = y.Seen, x.Seen, y.Batch, x.Batch
		return true
	}},
	{name: "a value that no client wrote", must: "watch-content", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*facts.Stream, int) bool { return true })
		if ok {
			p.event().Value = "nobody's"
		}
		return ok
	}},
	{name: "an older value of the key", must: "watch-content", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && old.By.Op.Outcome == record.OK
		})
		if ok {
			old, _ := sureBefore(p.s, p.i)
			p.event().Value = old.Value
		}
		return ok
	}},
	{name: "another group than was written", api: facts.APIKubernetes, must: "watch-content", may: []string{"watch-filter"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(*facts.Stream, int) bool { return true })
		if ok {
			p.event().Group = "z"
		}
		return ok
	}},
	{name: "a deleted object with another value", api: facts.APIKubernetes, must: "watch-content", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && s.Messages[i].Type == record.EventDeleted && s.Messages[i].Number >= s.Timeline.First
		})
		if ok {
			p.event().Value = "nobody's"
		}
		return ok
	}},
	{name: "a wrong flag", must: "watch-flags", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			_, sure := sureBefore(s, i)
			return sure && s.Watch.Group == ""
		})
		if ok {
			p.event().Type = map[record.EventType]record.EventType{record.EventAdded: record.EventModified, record.EventModified: record.EventAdded}[p.event().Type]
		}
		return ok
	}},
	{name: "a wrong create revision", api: facts.APIEtcd, must: "watch-flags", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			e, _, known := s.Shown(s.Messages[i])
			return known && e.Count > 2
		})
		if ok {
			p.event().CreateRevision = fmt.Sprint(record.Number(p.event().CreateRevision) + 1)
			p.event().Version--
		}
		return ok
	}},
	{name: "a modification shown as a deletion", must: "watch-flags", may: []string{"watch-content"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			e, _, known := s.Shown(s.Messages[i])
			return known && !e.Crossing
		})
		if ok {
			p.event().Type = record.EventDeleted
		}
		return ok
	}},
	{name: "a bookmark moves forward", must: "watch-bookmark", may: []string{"watch-reliable"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			return i+1 < len(s.Messages) && s.Messages[i].Bookmark() && b.strong(*s.Messages[i+1].Event)
		})
		if ok {
			p.event().Revision = p.s.Messages[p.i+1].Revision
		}
		return ok
	}},
	{name: "a bookmark moves back", must: "watch-bookmark", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool { return i > s.Begin && s.Messages[i].Bookmark() })
		if ok {
			p.event().Revision = fmt.Sprint(p.s.Messages[p.i-1].Number - 1)
		}
		return ok
	}},
	{name: "a streaming list lacks an object", api: facts.APIKubernetes, must: "watch-bookmark", do: func(b *broken) bool {
		for at := range b.run.Events {
			e := &b.run.Events[at].V
			for _, s := range b.c.Streams {
				i := slices.IndexFunc(s.Messages, func(m facts.Message) bool { return m.Event == e })
				if i < 0 || !s.Watch.Initial || s.Base == 0 || i >= s.Begin || !b.strong(*e) {
					continue
				}
				c, known := s.Timeline.Lines[e.Key].At(s.Base)
				if known && c != nil && c.Revision == record.Number(e.Revision) {
					return b.remove(spot{s, i, at})
				}
			}
		}
		return false
	}},
	{name: "a streaming list from the past", api: facts.APIKubernetes, must: "watch-bookmark", may: []string{"watch-reliable"}, do: func(b *broken) bool {
		for _, s := range b.c.Streams {
			if w := s.Timeline.NewestBefore(s.Watch.Called); s.Watch.Initial && s.Watch.From == "" && s.Base > 0 && w != nil && w.Revision > s.Messages[0].Number && s.Begin == 2 {
				s.Messages[1].Revision = s.Messages[0].Revision
				return true
			}
		}
		return false
	}},
	{name: "the state with which a watch began lacks an object", api: facts.APIKubernetes, must: "watch-reliable", do: func(b *broken) bool {
		for at := range b.run.Events {
			e := &b.run.Events[at].V
			for _, s := range b.c.Streams {
				i := slices.IndexFunc(s.Messages, func(m facts.Message) bool { return m.Event == e })
				if i < 0 || !s.WithState() || s.Watch.Initial || s.Base == 0 || i >= s.Begin || !b.strong(*e) || s.Begin == len(s.Messages) || s.Messages[s.Begin].Type == record.EventAdded {
					continue
				}
				c, known := s.Timeline.Lines[e.Key].At(s.Base)
				if known && c != nil && c.Revision == record.Number(e.Revision) && s.Messages[s.Begin].Key != e.Key {
					return b.remove(spot{s, i, at})
				}
			}
		}
		return false
	}},
	{name: "an object of another name", must: "watch-filter", may: []string{"watch-atomic"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool { return s.Watch.Key != "" && i+1 < len(s.Messages) })
		if !ok {
			return false
		}
		return b.stranger(p, func(c simChange) bool { return c.key != p.s.Watch.Key })
	}},
	{name: "an object of another group", must: "watch-filter", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			return s.Watch.Group != "" && s.Watch.Key == "" && i+1 < len(s.Messages)
		})
		if !ok {
			return false
		}
		return b.stranger(p, func(c simChange) bool {
			return c.pair != nil && c.pair.group != p.s.Watch.Group && (c.old == nil || c.old.group != p.s.Watch.Group)
		})
	}},
	{name: "an object that leaves its group comes as modified", api: facts.APIKubernetes, must: "watch-filter", may: []string{"watch-content", "watch-flags"}, do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			e, _, known := s.Shown(s.Messages[i])
			return known && e.Crossing && e.Type == record.EventDeleted && e.By.Op.Outcome == record.OK
		})
		if ok {
			c := b.changeOf(p.s.Messages[p.i].ID())
			p.event().Type, p.event().Value, p.event().Group = record.EventModified, c.pair.value, c.pair.group
		}
		return ok
	}},
	{name: "an object that enters its group comes as modified", api: facts.APIKubernetes, must: "watch-filter", do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			e, _, known := s.Shown(s.Messages[i])
			return known && e.Crossing
		})
		if ok {
			p.event().Type = record.EventModified
		}
		return ok
	}},
	{name: "a watch from a version shows what was before", must: "watch-resumable", may: []string{"watch-unique"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool { return i == 0 && s.From() > 0 })
		if !ok {
			return false
		}
		for _, c := range b.history {
			if e, shown := eventOf(c, b.api, p.s.Scope()); shown && c.rev <= p.s.From() && b.strong(e) {
				return b.insert(p, e)
			}
		}
		return false
	}},
	{name: "a watch of forgotten history is accepted with a gap", must: "watch-compacted", may: []string{"watch-reliable", "watch-resumable", "watch-bookmark", "watch-atomic"}, do: acceptForgotten},
	{name: "a transaction comes in two responses", api: facts.APIEtcd, must: "watch-atomic", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			return i > 0 && s.Messages[i].Number == s.Messages[i-1].Number && !s.Messages[i].Bookmark() && !s.Messages[i-1].Bookmark()
		})
		if ok {
			for _, m := range p.s.Messages[p.i:] {
				m.Batch++
			}
		}
		return ok
	}},
	{name: "half a transaction", api: facts.APIEtcd, must: "watch-atomic", may: []string{"watch-reliable", "watch-bookmark", "watch-resumable", "watch-compacted"}, do: func(b *broken) bool {
		p, ok := b.strongSpot(func(s *facts.Stream, i int) bool {
			return i > s.Begin && s.Messages[i].Number == s.Messages[i-1].Number && !s.Messages[i-1].Bookmark()
		})
		return ok && b.remove(p)
	}},
	{name: "a wrong previous value", api: facts.APIEtcd, must: "watch-previous", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			return record.Number(s.Messages[i].PreviousRevision) >= s.Timeline.First
		})
		if ok {
			p.event().PreviousValue = "nobody's"
		}
		return ok
	}},
	{name: "the pair before the previous one", api: facts.APIEtcd, must: "watch-previous", do: func(b *broken) bool {
		p, ok := b.spot(func(s *facts.Stream, i int) bool {
			old, sure := sureBefore(s, i)
			return sure && old != nil && s.Messages[i].PreviousRevision != "" && old.Count > 1 && b.changeOf(old.VersionOf).old != nil
		})
		if ok {
			old, _ := sureBefore(p.s, p.i)
			older := b.changeOf(old.VersionOf).old
			p.event().PreviousValue, p.event().PreviousRevision = older.value, fmt.Sprint(older.rev)
		}
		return ok
	}},
}

// stranger inserts after a message a change that the watch is not to show: one between
// it and the next.
func (b *broken) stranger(p spot, fits func(simChange) bool) bool {
	next := spot{p.s, p.i + 1, slices.IndexFunc(b.run.Events, func(e record.Timed[record.Event]) bool { return e.V == *p.s.Messages[p.i+1].Event })}
	for _, c := range b.history {
		if p.s.Messages[p.i].Number < c.rev && c.rev < p.s.Messages[p.i+1].Number && fits(c) && c.pair != nil {
			e, _ := eventOf(c, b.api, facts.Scope{})
			e.PreviousValue, e.PreviousRevision = "", ""
			line := p.s.Timeline.Lines[c.key]
			if j, ok := line.Find(c.rev); ok && line.Sure(j) && b.strong(e) {
				return b.insert(next, e)
			}
		}
	}
	return false
}

// acceptForgotten makes a refused watch accepted, showing only what came some changes later.
func acceptForgotten(b *broken) bool {
	for i := range b.run.Watches {
		n := &b.run.Watches[i].V
		if n.Phase != record.WatchRefused || !b.c.GoneBefore(n.Called, record.Number(n.From)) {
			continue
		}
		list := b.c.Timelines[facts.CollectionOf{API: b.api, Name: "things"}].Between(facts.Scope{Key: n.Key, Group: n.Group}, record.Number(n.From), facts.Never)
		if len(list) < 3 || list[0].Revision == list[1].Revision || list[0].By == nil || list[0].By.Op.Outcome != record.OK || !list[0].Present || !list[1].Present {
			continue
		}
		e, _ := eventOf(b.changeOf(list[1].VersionOf), b.api, facts.Scope{Key: n.Key, Group: n.Group})
		e.PreviousValue, e.PreviousRevision = "", ""
		e.Watch, e.Seen = n.ID, n.Seen
		n.Phase, n.Status, n.Error, n.Compacted = record.WatchOpened, 0, "", ""
		b.run.Events = append(b.run.Events, record.Timed[record.Event]{At: e.Seen, V: e})
		return true
	}
	return false
}
