package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// watchPause is how long a client waits before its next watch.
	watchPause = 100 * time.Millisecond
	// lastWriteLimit is how long a watch is given to show the last write.
	lastWriteLimit = 10 * time.Second
)

// watches is the profile of clients that watch the registers: all, one, or a group; from the
// version of a list, from none, or with a streaming list, of the newest state or one not older than
// a version that any client saw. A watch that ended is resumed through another entrance, and the
// first client of each entrance returns to it, so that nearly always some client watches through
// each entrance.
type watches struct {
	t        *Traffic
	settings WatchSettings
	// selections and beginnings are dealt to all watchers.
	selections, beginnings *deck
	// last ends when the watches have shown the last writes, or their time is over; stopping is
	// closed when that time starts.
	last     context.Context
	enough   context.CancelCauseFunc
	stopping chan struct{}
	patience time.Duration // lastWriteLimit outside of tests
	watchers sync.WaitGroup
}

func newWatches(t *Traffic) *watches {
	p := &watches{t: t, settings: t.cfg.Watches, stopping: make(chan struct{}), patience: t.patience}
	p.selections = newDeck(t.random(), selectAll, selectAll, selectAll, selectGroup, selectKey)
	p.beginnings = newDeck(t.random(), beginListed, beginListed, beginInitial, beginInitialFrom, beginNow)
	p.last, p.enough = context.WithCancelCause(t.ctx)
	return p
}

func (p *watches) start() error {
	of := map[string]int{} // watchers by entrance
	return p.t.forEach(p.t.cfg.Cluster.Entrances(), func(e framework.Entrance) error {
		all := p.t.cfg.Cluster.Entrances()
		at := slices.IndexFunc(all, func(other framework.Entrance) bool { return other.Name == e.Name })
		for i := range p.settings.ClientsPerEntrance {
			w := &watcher{watches: p, of: p.t.registers, at: at, home: at, settled: i == 0 && p.settings.ClientsPerEntrance > 1,
				timed: true, choose: (*watcher).chooseRegisters, random: p.t.random()}
			if err := w.open(all, fmt.Sprintf("%s/%s/%d", ProfileWatches, e.Name, of[e.Name])); err != nil {
				return err
			}
			of[e.Name]++
			p.watchers.Go(w.run)
		}
		return nil
	})
}

// finish gives the watches time to show the last writes.
func (p *watches) finish(ctx context.Context) {
	close(p.stopping)
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	late := context.AfterFunc(ctx, func() { p.enough(errTooLate) })
	defer late()
	p.watchers.Wait()
}

func (p *watches) isStopping() bool { return closed(p.stopping) }

// The selections of a watch, and its starts: a list, the initial events of a streaming list, of the
// newest state or not older than a version, or the next event.
const (
	selectAll = iota
	selectGroup
	selectKey
	beginListed
	beginInitial
	beginInitialFrom
	beginNow
)

// watcher is one client of the profile, or of that of etcd.
type watcher struct {
	*watches
	of   *collection
	ways []way // one for each entrance, or member of etcd
	at   int   // the way of the next watch
	// settled returns to its first entrance whenever a watch has ended as agreed.
	settled bool
	home    int
	timed   bool // the server can be asked to end a watch after some time
	// choose picks what to watch; listed reports that it starts with a list.
	choose func(*watcher) (q watching, listed bool)
	random *rand.Rand
	seen   progress // of the current story
}

// way is a client at one entrance, or at one member of etcd.
type way interface {
	// listFrom lists a group, and returns the version of the list and from where to watch after
	// it; from is empty if the list failed.
	listFrom(ctx context.Context, group string) (version uint64, from string)
	watch(ctx context.Context, id string, q watching, seen *progress, done func() bool) watched
	// gone reports whether the node has left the cluster.
	gone() bool
	close()
}

func (w *watcher) open(entrances []framework.Entrance, name string) error {
	for _, e := range entrances {
		r, err := w.t.client(e, name, "")
		if err != nil {
			return err
		}
		w.ways = append(w.ways, r)
	}
	return nil
}

func (w *watcher) run() {
	defer closeAll(w.ways)
	for w.last.Err() == nil && !w.story() {
		client.Pause(w.last, watchPause)
	}
}

// story watches one selection of keys for several watches, resuming those that ended. It reports
// whether nothing more will follow.
func (w *watcher) story() (over bool) {
	q, listed := w.choose(w)
	w.seen.begin(0)
	for n := 1 + w.random.IntN(6); w.last.Err() == nil && (n > 0 || w.isStopping()); n-- {
		if listed && q.from == "" {
			version, from := w.ways[w.at].listFrom(w.last, q.group)
			if from == "" {
				w.move(false)
				client.Pause(w.last, watchPause)
				continue
			}
			q.from, q.resumes = from, ""
			w.seen.begin(version)
		}
		if w.done(q) {
			return true
		}
		result := w.once(q)
		if w.done(q) {
			return true
		}
		switch {
		case result.status == http.StatusGone:
			// The history is gone: only a list reports the state.
			listed, q.from, q.initial = true, "", false
		case result.id != "" && result.from != "":
			q.from, q.resumes, q.initial = result.from, result.id, false
		case result.id == "" && q.initial:
			q.from = "" // API servers may not have that version yet
		}
		w.move(result.agreed)
		client.Pause(w.last, watchPause)
	}
	return false
}

// chooseRegisters chooses for a client of the API servers.
func (w *watcher) chooseRegisters() (q watching, listed bool) {
	q.bookmarks = w.random.IntN(4) > 0
	switch w.selections.deal() {
	case selectGroup:
		q.group = groups[w.random.IntN(len(groups))]
	case selectKey:
		q.key = w.of.keys[w.random.IntN(len(w.of.keys))]
	}
	switch w.beginnings.deal() {
	case beginListed:
		listed = true
	case beginInitial:
		q.initial, q.bookmarks = true, true
	case beginInitialFrom:
		q.initial, q.bookmarks, q.from = true, true, w.of.version(w.random)
	}
	return q, listed
}

// once makes one watch. Either side ends it after a while, equally often if the server can: it
// does after the requested time, with a bookmark shortly before. When the traffic stops, a watch
// runs until it has shown the last write.
func (w *watcher) once(q watching) watched {
	life := around(w.random, w.settings.Lifetime)
	if w.timed && w.random.IntN(2) == 0 {
		q.seconds = max(1, int(life.Round(time.Second)/time.Second))
		life += 5 * time.Second // in case the server does not
	}
	done := func() bool { return w.done(q) }
	ctx, over := w.alive(life, done)
	defer over()
	return w.ways[w.at].watch(ctx, w.t.watchID(), q, &w.seen, done)
}

// alive returns a context for one watch, whose cause says why the client ends it: after its life,
// or, once the traffic has stopped, when it is done. over releases its resources.
func (p *watches) alive(life time.Duration, done func() bool) (ctx context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(p.last)
	go func() {
		end := time.NewTimer(life)
		defer end.Stop()
		select {
		case <-ctx.Done():
		case <-end.C:
			cancel(errClosed)
		case <-p.stopping:
			if done() {
				cancel(errLastWrite)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// done reports whether the traffic has stopped and the story has reached its last write.
func (w *watcher) done(q watching) bool {
	return w.isStopping() && w.seen.shows(w.of.last(q.key, q.group))
}

// move goes to another entrance or member. A settled watcher goes home after a watch that ended
// as agreed, and stays there.
func (w *watcher) move(agreed bool) {
	if w.settled && agreed && !w.ways[w.home].gone() {
		w.at = w.home
		return
	}
	var others []int
	for i, other := range w.ways {
		if i != w.at && !other.gone() {
			others = append(others, i)
		}
	}
	if len(others) > 0 {
		w.at = others[w.random.IntN(len(others))]
	}
}
