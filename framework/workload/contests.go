package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// contests is the profile in which one client of each API server updates the same version of one
// register at the same moment, repeatedly: exactly one of them may win. Independent clients
// collide by chance, and rarely at the same time.
type contests struct {
	t        *Traffic
	settings ContestSettings
	of       *collection
}

func newContests(t *Traffic) contests {
	return contests{t, t.cfg.Contests, &collection{name: "contests-" + t.suffix}}
}

func (p contests) start() error {
	if len(apiServers(p.t.cfg.Cluster.Entrances())) < 2 {
		return nil // a single client has no rival
	}
	var clients []*registers
	var all []*values
	random := p.t.random()
	for i, e := range apiServers(p.t.cfg.Cluster.Entrances()) {
		r, err := p.t.client(e, fmt.Sprintf("%s/%s", ProfileContests, e.Name), "")
		if err != nil {
			closeRegisters(clients)
			return err
		}
		r.of = p.of
		clients, all = append(clients, r), append(all, newValues(random, fmt.Sprintf("b%d", i), 0))
	}
	round := 0
	p.t.clients.Go(func() {
		defer closeRegisters(clients)
		p.t.loop(random, p.settings.Interval, func(ctx context.Context) {
			contest(ctx, fmt.Sprintf("contest-%s", p.t.suffix), random, clients, all, round)
			round++
		})
	})
	return nil
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

// finish deletes the register.
func (p contests) finish(ctx context.Context) { p.t.deleteCollection(ctx, p.of) }
