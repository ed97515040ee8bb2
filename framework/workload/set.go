package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// set is the profile of clients that each create ConfigMaps, one after the other, that are never
// changed. A lost register is overwritten a moment later; but each acknowledged element of a set
// must be in the list that is read through each API server at the end (the set workload of
// Jepsen).
type set struct {
	t        *Traffic
	settings SetSettings
	of       *collection
}

func newSet(t *Traffic) set { return set{t, t.cfg.Set, &collection{name: "set-" + t.suffix}} }

func (p set) start() error {
	return p.t.perEntrance(ProfileSet, p.settings.ClientsPerEntrance, func(r *registers, random *rand.Rand, number int) {
		r.of = p.of
		n := 0
		p.t.loop(r.left, random, p.settings.Interval, func(ctx context.Context) {
			n++
			name := fmt.Sprintf("element-%d-%d", number, n)
			r.create(ctx, name+"-"+p.t.suffix, content{value: name})
		})
	})
}

// setPage is how many elements a page of the last list has.
const setPage = 500

// finish lists the set through each API server, then deletes it.
func (p set) finish(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, p.t.final*2/3)
	p.t.finally(limited, func(ctx context.Context, r *registers) {
		r.of = p.of
		tryUntil(ctx, func() bool {
			return r.list(ctx, listing{match: record.MatchUnset, limit: setPage}).Outcome == record.OK
		})
	})
	cancel()
	p.t.deleteCollection(ctx, p.of)
}

// deleteCollection deletes what is left of a collection, as far as possible. No client reads it
// any more, so it is not recorded.
func (t *Traffic) deleteCollection(ctx context.Context, c *collection) {
	servers := apiServers(t.cfg.Cluster.Entrances())
	for i := 0; len(servers) > 0 && ctx.Err() == nil; i++ {
		r, err := t.client(servers[i%len(servers)], "final", "cleanup")
		if err != nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
		a := r.api.Do(limited, client.Request{Method: http.MethodDelete, Path: r.path(""), Query: url.Values{"labelSelector": {collectionLabel + "=" + c.name}}})
		cancel()
		r.close()
		if a.Outcome() == record.OK || i == 2*len(servers) || !client.Pause(ctx, 250*time.Millisecond) {
			return
		}
	}
}
