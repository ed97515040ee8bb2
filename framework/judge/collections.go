package judge

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// collections is what a record shows of collections: their timelines, and the lists
// and watches to hold against them.
type collections struct {
	timelines map[collectionOf]*timeline
	lists     []listing
	streams   []*stream
	// gone are versions that somebody was told to be no longer in the history.
	gone []bound
	// compacted is when etcd had been made to forget history, and up to which version
	// at least.
	compacted []bound
}

type collectionOf struct{ api, name string }

func newCollections(run *record.Run) *collections {
	c := &collections{timelines: map[collectionOf]*timeline{}}
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
			c.timeline(op.API, op.Collection).sees(op.Key, op.Value, op.Group, number(op.Revision))
		}
	}
	for i := range run.Lists {
		l := &run.Lists[i].V
		t := c.timeline(l.API, l.Collection)
		c.lists = append(c.lists, listing{l, t})
		for _, item := range l.Items {
			t.sees(item.Key, item.Value, item.Group, number(item.Revision))
		}
		if l.Status == 410 && l.Match == record.MatchExact {
			c.gone = append(c.gone, bound{l.Return, number(l.Asked)})
		}
	}
	c.addWatches(run)
	for _, t := range c.timelines {
		t.settle()
	}
	for _, s := range c.streams {
		s.settle()
	}
	c.compacted = c.compactions(run)
	slices.SortFunc(c.gone, func(a, b bound) int { return cmp.Compare(a.at, b.at) })
	return c
}

func (c *collections) timeline(api, name string) *timeline {
	key := collectionOf{api, name}
	t := c.timelines[key]
	if t == nil {
		t = newTimeline(api, name)
		c.timelines[key] = t
	}
	return t
}

// addWatches makes a stream of each watch.
func (c *collections) addWatches(run *record.Run) {
	byID := map[string]*stream{}
	for i := range run.Watches {
		w := &run.Watches[i].V
		s := byID[w.ID]
		if s == nil {
			s = &stream{watch: w, timeline: c.timeline(w.API, w.Collection), index: map[versionOf]int{}}
			byID[w.ID] = s
			c.streams = append(c.streams, s)
		}
		switch w.Phase {
		case record.WatchOpened:
			s.opened, s.watch = true, w
		default:
			s.ended = w
		}
		// Kubernetes says 410 of the version that was asked for; so does etcd, which
		// also says which version it has forgotten up to.
		if w.Status == 410 || w.Compacted != "" {
			// An entrance may have less history than another one; etcd has one history.
			c.gone = append(c.gone, bound{w.Seen, max(number(w.From), number(w.Compacted))})
		}
	}
	for i := range run.Events {
		e := &run.Events[i].V
		s := byID[e.Watch]
		if s == nil {
			continue // its watch is not in the record
		}
		s.messages = append(s.messages, message{e, number(e.Revision)})
		if e.PreviousRevision != "" {
			s.timeline.sees(e.Key, e.PreviousValue, "", number(e.PreviousRevision))
		}
		switch r := number(e.Revision); e.Type {
		case record.EventAdded, record.EventModified:
			s.timeline.sees(e.Key, e.Value, e.Group, r)
		case record.EventDeleted:
			if r > 0 {
				d := sightOf{versionOf: versionOf{e.Key, r}, group: s.watch.Group}
				s.timeline.deletions[e.Key] = append(s.timeline.deletions[e.Key], d)
			}
		}
	}
	for _, s := range c.streams {
		s.previous = byID[s.watch.Resumes]
	}
}

// goneBefore tells whether somebody had been told, before a time, that version is no
// longer in the history.
func (c *collections) goneBefore(at record.Nanos, version uint64) bool {
	for _, g := range c.gone {
		if g.at >= at {
			break
		}
		if g.revision >= version {
			return true
		}
	}
	return false
}

// compactions returns when faults were seen to have made etcd forget, and which
// versions at least were no longer readable from then on: those before what any
// client had acknowledged when it was asked to, but for those that were to be kept.
func (c *collections) compactions(run *record.Run) (all []bound) {
	for i := range run.Faults {
		f := &run.Faults[i].V
		if f.Name != "compact" || f.Phase != record.FaultInjected || !f.Proven {
			continue
		}
		newest := uint64(0)
		for _, t := range c.timelines {
			if w := t.newestBefore(f.Called); w != nil {
				newest = max(newest, w.revision)
			}
		}
		newest -= min(newest, number(f.Params["keep"]))
		all = append(all, bound{max(f.Called, f.Effect), newest})
	}
	return all
}
