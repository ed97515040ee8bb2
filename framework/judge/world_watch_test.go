package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// open starts a watch: of the collection, a group or a key; with the state, with a streaming
// list, from a version, or from now.
func (w *world) open() {
	n := &simWatch{}
	switch w.IntN(4) {
	case 0:
		n.Key = w.key()
	case 1:
		n.Group = string(rune('a' + w.IntN(2)))
	}
	n.Bookmarks, n.Previous = w.IntN(3) > 0, w.api == facts.APIEtcd && w.IntN(2) == 0
	if v := w.version(); v > 0 && w.IntN(3) > 0 {
		n.From = fmt.Sprint(v)
	}
	n.Initial = w.api == facts.APIKubernetes && w.IntN(3) == 0
	w.begin(n)
}

// begin makes an entrance accept or refuse a watch.
func (w *world) begin(n *simWatch) {
	w.n++
	n.ID, n.API, n.Collection = fmt.Sprint("w", w.n), w.api, "things"
	n.Client = "watcher"
	n.entrance = w.IntN(simEntrances)
	n.Entrance = w.entrance(n.entrance)
	n.Called = w.now
	from := record.Number(n.From)
	atOnce := w.rev // what the newest state is
	w.now += 1000
	n.Seen, n.Phase = w.now, record.WatchOpened
	cache := &w.caches[n.entrance]
	if from > 0 && !n.Initial && from < w.compacted {
		n.Phase, n.Status, n.Error = record.WatchRefused, 410, "too old"
		if w.api == facts.APIEtcd {
			n.Compacted = fmt.Sprint(w.compacted)
		}
		w.phase(n)
		return
	}
	switch {
	case w.api == facts.APIEtcd && from > 0:
		n.pos = from - 1
	case w.api == facts.APIEtcd:
		n.pos = *cache
	case n.Initial:
		if *cache = max(*cache, from); n.From == "" {
			*cache = max(*cache, atOnce)
		}
		w.queueState(n, *cache)
		n.initial = true
	case from == 0:
		w.queueState(n, *cache)
	default:
		n.pos = from
	}
	n.told = n.pos
	w.watches = append(w.watches, n)
	w.phase(n)
}

func (w *world) queueState(n *simWatch, version uint64) {
	for _, item := range w.items(facts.Scope{Key: n.Key, Group: n.Group}, version) {
		n.queue = append(n.queue, record.Event{Type: record.EventAdded, Key: item.Key, Value: item.Value, Group: item.Group, Revision: item.Revision})
	}
	w.Shuffle(len(n.queue), func(i, j int) { n.queue[i], n.queue[j] = n.queue[j], n.queue[i] })
	n.pos = version
}

func (w *world) phase(n *simWatch) {
	w.run.Watches = append(w.run.Watches, record.Timed[record.Watch]{At: w.now, V: n.Watch})
}

// watch makes some watch send more, send a bookmark, or break.
func (w *world) watch() {
	if len(w.watches) == 0 {
		return
	}
	n := w.watches[w.IntN(len(w.watches))]
	switch dice := w.IntN(20); {
	case n.over:
	case dice == 0:
		w.end(n)
	case len(n.queue) > 0:
		k := 1 + w.IntN(len(n.queue))
		if w.api == facts.APIEtcd {
			k = len(n.queue) // one response
			n.batch++
		}
		for _, e := range n.queue[:k] {
			w.send(n, e)
		}
		if n.queue = n.queue[k:]; len(n.queue) == 0 {
			n.told = n.pos
		}
	case n.initial && dice < 10:
		n.initial = false
		w.send(n, record.Event{Type: record.EventBookmark, Revision: fmt.Sprint(n.pos), InitialEnd: true})
	case n.Bookmarks && dice < 7 && !n.initial:
		if to := w.caches[n.entrance]; w.quiet(n, to) && to > n.pos {
			n.pos = to // nothing of it happened since
		}
		n.told = n.pos
		n.batch++
		w.send(n, record.Event{Type: record.EventBookmark, Revision: fmt.Sprint(n.pos)})
	default:
		w.queueChanges(n)
	}
}

func (w *world) quiet(n *simWatch, to uint64) bool {
	return !slices.ContainsFunc(w.history, func(c simChange) bool {
		_, shown := eventOf(c, w.api, facts.Scope{Key: n.Key, Group: n.Group})
		return shown && n.pos < c.rev && c.rev <= to
	})
}

// queueChanges takes from the cache some changes that the watch has not sent yet.
func (w *world) queueChanges(n *simWatch) {
	to := w.caches[n.entrance]
	if to <= n.pos {
		return
	}
	to = n.pos + 1 + uint64(w.IntN(int(to-n.pos)))
	for _, c := range w.history {
		if e, shown := eventOf(c, w.api, facts.Scope{Key: n.Key, Group: n.Group}); shown && n.pos < c.rev && c.rev <= to {
			if !n.Previous {
				e.PreviousValue, e.PreviousRevision = "", ""
			}
			n.queue = append(n.queue, e)
		}
	}
	n.pos = to
}

// eventOf returns how a watch of a scope shows a change.
func eventOf(c simChange, api string, s facts.Scope) (e record.Event, shown bool) {
	is := c.pair != nil && (s.Group == "" || s.Group == c.pair.group)
	was := c.old != nil && (s.Group == "" || s.Group == c.old.group)
	e = record.Event{Key: c.key, Revision: fmt.Sprint(c.rev)}
	switch {
	case s.Key != "" && s.Key != c.key, !is && !was:
		return e, false
	case is:
		e.Type, e.Value, e.Group = record.EventAdded, c.pair.value, c.pair.group
		if was {
			e.Type = record.EventModified
		}
	default:
		e.Type = record.EventDeleted
		if api == facts.APIKubernetes {
			e.Value, e.Group = c.old.value, c.old.group
		}
	}
	if api == facts.APIEtcd {
		if is {
			e.CreateRevision, e.Version = fmt.Sprint(c.pair.created), c.pair.version
		}
		if c.old != nil {
			e.PreviousValue, e.PreviousRevision = c.old.value, fmt.Sprint(c.old.rev)
		}
	}
	return e, true
}

func (w *world) send(n *simWatch, e record.Event) {
	e.Watch, e.Seen = n.ID, w.now
	if w.api == facts.APIEtcd {
		e.Batch = n.batch
	}
	if len(n.queue) == 0 || n.live() {
		n.told = max(n.told, record.Number(e.Revision))
	}
	w.run.Events = append(w.run.Events, record.Timed[record.Event]{At: w.now, V: e})
}

// live reports whether the queue has changes: then each of them is a version to continue from.
func (n *simWatch) live() bool { return !n.initial && n.From != "" }

// end breaks a watch, and mostly lets its client continue through some entrance.
func (w *world) end(n *simWatch) {
	n.over = true
	last := n.Watch
	last.Phase, last.Seen = record.WatchEnded, w.now
	if w.IntN(10) == 0 && w.api == facts.APIEtcd && w.compacted > n.pos+1 {
		last.Status, last.Compacted = 410, fmt.Sprint(w.compacted)
	}
	w.run.Watches = append(w.run.Watches, record.Timed[record.Watch]{At: w.now, V: last})
	w.watches = slices.DeleteFunc(w.watches, func(o *simWatch) bool { return o == n })
	if w.IntN(5) == 0 || n.told == 0 {
		return
	}
	next := &simWatch{Watch: record.Watch{Key: n.Key, Group: n.Group, Bookmarks: n.Bookmarks, Previous: n.Previous, Resumes: n.ID}}
	switch {
	case w.api == facts.APIEtcd:
		next.From = fmt.Sprint(n.told + 1)
	case n.initial || len(n.queue) > 0 && !n.live():
		next.Initial = true // it broke before it had the state
	default:
		next.From = fmt.Sprint(n.told)
	}
	w.begin(next)
}
