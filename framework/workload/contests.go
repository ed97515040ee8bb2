package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// contests is the profile in which one client of each API server updates the same version of one
// register at the same moment, repeatedly: exactly one of them may win. Independent clients
// collide by chance, and rarely at the same time.
type contests struct {
	t        *Traffic
	settings ContestSettings
	of       *collection

	mu      sync.Mutex
	clients []*registers // guarded by mu
}

func newContests(t *Traffic) *contests {
	return &contests{t: t, settings: t.cfg.Contests, of: &collection{name: "contests-" + t.suffix}}
}

func (p *contests) start() error {
	if err := p.t.forEach(apiServers(p.t.cfg.Cluster.Entrances()), p.join); err != nil {
		closeAll(p.present())
		return err
	}
	random, round := p.t.random(), 0
	var all []*values
	p.t.clients.Go(func() {
		p.t.loop(nil, random, p.settings.Interval, func(ctx context.Context) {
			clients := p.present()
			for i := len(all); i < len(clients); i++ {
				all = append(all, newValues(random, fmt.Sprintf("b%d", i), 0))
			}
			if len(clients) > 1 { // a single client has no rival
				contest(ctx, fmt.Sprintf("contest-%s", p.t.suffix), random, clients, all, round)
			}
			round++
		})
	})
	return nil
}

func (p *contests) join(e framework.Entrance) error {
	r, err := p.t.client(e, fmt.Sprintf("%s/%s", ProfileContests, e.Name), "")
	if err != nil {
		return err
	}
	r.of = p.of
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = append(p.clients, r)
	return nil
}

// present closes the clients of nodes that have left, and returns the others.
func (p *contests) present() []*registers {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = slices.DeleteFunc(p.clients, func(r *registers) bool {
		if r.gone() {
			r.close()
		}
		return r.gone()
	})
	return slices.Clone(p.clients)
}

// contest is one round: the first client, a different one each time, reads the version of the
// register or creates it, then all update it at the same time.
func contest(ctx context.Context, key string, random *rand.Rand, clients []*registers, values []*values, round int) {
	next := func(i int) content {
		value, _ := values[i].next()
		return content{value: value, group: groups[random.IntN(len(groups))]}
	}
	first := round % len(clients)
	op := clients[first].get(ctx, key)
	if op.Outcome == record.OK && !op.Found {
		op = clients[first].create(ctx, key, next(first))
	}
	if op.Outcome != record.OK || op.Revision == "" {
		return
	}
	version := op.Revision
	barrier := make(chan struct{})
	var all sync.WaitGroup
	for i, r := range clients {
		c := next(i)
		all.Go(func() {
			<-barrier
			r.update(ctx, key, c, version)
		})
	}
	close(barrier)
	all.Wait()
}

func (p *contests) finish(ctx context.Context) {
	closeAll(p.present())
	p.t.deleteCollection(ctx, p.of)
}
