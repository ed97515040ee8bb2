package facts

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Collections is what a record shows of collections: their timelines, and the lists and watches
// to check against them.
type Collections struct {
	Timelines map[CollectionOf]*Timeline
	Lists     []Listing
	Streams   []*Stream
	// gone are versions that the server reported to a client as no longer in the history.
	gone []bound
	// Compacted is when etcd had been made to compact its history, and up to which version at
	// least.
	Compacted []bound
}

type CollectionOf struct{ API, Name string }

func NewCollections(run *record.Run) *Collections {
	c := &Collections{Timelines: map[CollectionOf]*Timeline{}}
	if len(run.Lists) == 0 && len(run.Watches) == 0 {
		return c
	}
	for i := range run.Ops {
		if op := &run.Ops[i].V; op.Collection != "" && op.Type != record.OpGet {
			c.timeline(op.API, op.Collection).add(op)
		}
	}
	for i := range run.Ops {
		if op := &run.Ops[i].V; op.Collection != "" && op.Type == record.OpGet && op.Outcome == record.OK && op.Found {
			c.timeline(op.API, op.Collection).sees(op.Key, op.Value, op.Group, record.Number(op.Revision))
		}
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		t := c.timeline(l.API, l.Collection)
		c.Lists = append(c.Lists, Listing{l, t})
		for _, item := range l.Items {
			t.sees(item.Key, item.Value, item.Group, record.Number(item.Revision))
		}
		if l.Status == 410 && l.Match == record.MatchExact {
			c.gone = append(c.gone, bound{l.Return, record.Number(l.Asked)})
		}
	}
	c.addWatches(run)
	for _, t := range c.Timelines {
		t.settle()
	}
	for _, s := range c.Streams {
		s.settle()
	}
	c.Compacted = c.compactions(run)
	slices.SortFunc(c.gone, func(a, b bound) int { return cmp.Compare(a.At, b.At) })
	return c
}

func (c *Collections) timeline(api, name string) *Timeline {
	key := CollectionOf{api, name}
	t := c.Timelines[key]
	if t == nil {
		t = newTimeline()
		c.Timelines[key] = t
	}
	return t
}

func (c *Collections) addWatches(run *record.Run) {
	byID := map[string]*Stream{}
	for i := range run.Watches {
		w := &run.Watches[i].V
		s := byID[w.ID]
		if s == nil {
			s = &Stream{Watch: w, Timeline: c.timeline(w.API, w.Collection), Index: map[VersionOf]int{}}
			byID[w.ID] = s
			c.Streams = append(c.Streams, s)
		}
		switch w.Phase {
		case record.WatchOpened:
			s.Opened, s.Watch = true, w
		default:
			s.Ended = w
		}
		// Kubernetes returns 410 for the requested version; so does etcd, which also returns the
		// version up to which it has compacted.
		if w.Status == 410 || w.Compacted != "" {
			// An entrance may have less history than another one; etcd has one history.
			c.gone = append(c.gone, bound{w.Seen, max(record.Number(w.From), record.Number(w.Compacted))})
		}
	}
	for i := range run.Events {
		e := &run.Events[i].V
		s := byID[e.Watch]
		if s == nil {
			continue // its watch is not in the record
		}
		s.Messages = append(s.Messages, Message{e, record.Number(e.Revision)})
		if e.PreviousRevision != "" {
			s.Timeline.sees(e.Key, e.PreviousValue, "", record.Number(e.PreviousRevision))
		}
		switch r := record.Number(e.Revision); e.Type {
		case record.EventAdded, record.EventModified:
			s.Timeline.sees(e.Key, e.Value, e.Group, r)
		case record.EventDeleted:
			if r > 0 {
				d := sightOf{VersionOf: VersionOf{e.Key, r}, group: s.Watch.Group}
				s.Timeline.deletions[e.Key] = append(s.Timeline.deletions[e.Key], d)
			}
		}
	}
	for _, s := range c.Streams {
		s.Previous = byID[s.Watch.Resumes]
	}
}

// GoneBefore reports whether a client was notified, before a time, that version is no longer in
// the history.
func (c *Collections) GoneBefore(at record.Nanos, version uint64) bool {
	for _, g := range c.gone {
		if g.At >= at {
			break
		}
		if g.Revision >= version {
			return true
		}
	}
	return false
}

// compactions returns when faults were seen to have compacted etcd, and which versions at least
// were no longer readable from then on: those before the last one that a client had acknowledged
// when the compaction was requested, except those to be kept.
func (c *Collections) compactions(run *record.Run) (all []bound) {
	for _, f := range record.Each(run.Faults) {
		if !f.Has(record.EffectCompacted) || f.Phase != record.FaultInjected || !f.Proven {
			continue
		}
		newest := uint64(0)
		for _, t := range c.Timelines {
			if w := t.NewestBefore(f.Called); w != nil {
				newest = max(newest, w.Revision)
			}
		}
		newest -= min(newest, record.Number(f.Params["keep"]))
		all = append(all, bound{max(f.Called, f.Effect), newest})
	}
	return all
}
