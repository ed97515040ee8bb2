package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// oldWatchLimit is how long OldWatch allows each watch.
	oldWatchLimit = 3 * time.Second
	// listWatchLimit is how long ListWatch tries to start, and listWatchSeconds how long it then
	// watches.
	listWatchLimit   = 20 * time.Second
	listWatchSeconds = 2
	// listWatchPause is the pause between two tries: it is about the first moments of an API
	// server.
	listWatchPause = 50 * time.Millisecond
	// spreadWatches is how many watches SpreadWatch opens for each API server, and
	// spreadLife how long each may take.
	spreadWatches = 15
	spreadLife    = 3 * time.Second
)

// OldWatch has a new client of each API server, and of each etcd member if the traffic has the
// profile etcd, watch the traffic's keys from the first version that any client saw, until the
// watch has reached the newest one, is refused, or 3 s are over. The server may return all of the
// history since, or report that it is gone.
func (t *Traffic) OldWatch(ctx context.Context) error {
	if oldest, _ := t.registers.span(); oldest == "" {
		return errors.New("old watch: the traffic has not read a register yet, and a watch must start from an old version: add a `wait`, or the profile registers")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := time.AfterFunc(oldWatchLimit, func() { cancel(errClosed) })
	defer over.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for _, e := range apiServers(t.cfg.Cluster.Entrances()) {
		r, err := t.client(e, "old-watch/"+e.Name, "")
		if err != nil {
			return fmt.Errorf("old watch: %w", err)
		}
		oldest, seen, done := since(t.registers)
		all.Go(func() {
			defer r.close()
			r.watch(ctx, t.watchID(), watching{from: oldest, bookmarks: true, short: true}, seen, done)
		})
	}
	for _, p := range t.profiles {
		if p, ok := p.(*etcdTraffic); ok {
			return t.oldEtcdWatches(ctx, p.of, &all)
		}
	}
	return nil
}

// oldEtcdWatches is the part of OldWatch for etcd's members.
func (t *Traffic) oldEtcdWatches(ctx context.Context, of *collection, all *sync.WaitGroup) error {
	oldest, _ := of.span()
	if oldest == "" {
		return errors.New("old watch: no client of the traffic has seen a revision of a key in etcd")
	}
	members, err := openMembers(t.cfg.Cluster, t.w, "old-watch")
	if err != nil {
		return fmt.Errorf("old watch: %w", err)
	}
	for _, m := range members {
		m.of = of
		_, seen, done := since(of)
		all.Go(func() {
			defer m.close()
			m.watch(ctx, t.watchID(), watching{from: strconv.FormatUint(record.Number(oldest)+1, 10), short: true}, seen, done)
		})
	}
	return nil
}

// since returns the first version that was seen of a collection, and the progress of a watch from
// there, which is done when it has reached the newest one.
func since(c *collection) (oldest string, seen *progress, done func() bool) {
	oldest, newest := c.span()
	seen = &progress{}
	seen.begin(record.Number(oldest))
	return oldest, seen, func() bool { return seen.reached(record.Number(newest)) }
}

// reached reports whether no more changes up to a version will arrive.
func (p *progress) reached(version uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upTo >= version
}

// ListWatch lists the registers through the API server of node and watches them from there, and
// starts a streaming list of them, both as soon as that API server allows it: it retries every 50
// ms, for at most 20 s. Each watch lasts for 2 s from its start. It is an error if the API server
// does not allow one of them, except for streaming lists that it rejects (feature gate WatchList).
func (t *Traffic) ListWatch(ctx context.Context, node string) error {
	var entrance *framework.Entrance
	for _, e := range apiServers(t.cfg.Cluster.Entrances()) {
		if e.Node == node {
			entrance = &e
		}
	}
	if entrance == nil {
		return fmt.Errorf("list-watch: no API server on node %q", node)
	}
	var all sync.WaitGroup
	var problems [2]error
	for i, begin := range []func(context.Context, *registers) (watching, bool){listed, streamed} {
		r, err := t.client(*entrance, fmt.Sprintf("list-watch/%s/%d", entrance.Name, i), "")
		if err != nil {
			return fmt.Errorf("list-watch: %w", err)
		}
		all.Go(func() {
			defer r.close()
			problems[i] = t.listWatch(ctx, r, begin)
		})
	}
	all.Wait()
	return errors.Join(problems[:]...)
}

// listed starts with a list, streamed with a streaming list.
func listed(ctx context.Context, r *registers) (watching, bool) {
	l := r.list(ctx, listing{match: record.MatchUnset})
	if l.Outcome != record.OK {
		return watching{}, false
	}
	return watching{from: l.Pages[0].Revision, bookmarks: true, seconds: listWatchSeconds}, true
}

func streamed(context.Context, *registers) (watching, bool) {
	return watching{initial: true, bookmarks: true, seconds: listWatchSeconds}, true
}

// listWatch retries until one watch has had its time, with all initial events of a streaming list.
func (t *Traffic) listWatch(ctx context.Context, r *registers, begin func(context.Context, *registers) (watching, bool)) error {
	limited, cancel := context.WithTimeout(ctx, listWatchLimit)
	defer cancel()
	for {
		if q, ok := begin(limited, r); ok {
			var seen progress
			seen.begin(record.Number(q.from))
			result := r.watch(limited, t.watchID(), q, &seen, func() bool { return false })
			if result.status == 0 && seen.reached(1) || q.initial && result.status == http.StatusUnprocessableEntity {
				return nil
			}
		}
		if !client.Pause(limited, listWatchPause) {
			return fmt.Errorf("list-watch through %s: no list and watch completed within %s", r.entrance, listWatchLimit)
		}
	}
}

// SpreadWatch opens fifteen watches for each API server through every entrance that leads to
// several of them, all in parallel and on their own connections, for 3 s, so that the record
// shows where new watches are routed.
func (t *Traffic) SpreadWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, spreadLife, errClosed)
	defer cancel()
	entrances := t.cfg.Cluster.Entrances()
	servers := len(apiServers(entrances))
	var all sync.WaitGroup
	defer all.Wait()
	opened := 0
	for _, e := range entrances {
		if e.Kind == framework.EntranceAPIServer {
			continue
		}
		for range servers * spreadWatches {
			opened++
			r, err := t.client(e, fmt.Sprintf("spread-watch/%s/%d", e.Name, opened), "")
			if err != nil {
				return fmt.Errorf("spread watch: %w", err)
			}
			all.Go(func() {
				defer r.close()
				r.watch(ctx, t.watchID(), watching{}, &progress{keys: map[string]uint64{}}, func() bool { return false })
			})
		}
	}
	if opened == 0 {
		return errors.New("spread watch: no entrance leads to several API servers")
	}
	return nil
}

func (t *Traffic) watchID() string { return fmt.Sprintf("w%d", t.watches.Add(1)) }
