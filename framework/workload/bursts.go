package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// burstRounds is small: a burst must not change how busy the cluster is.
	burstRounds  = 3
	burstTimeout = 2 * time.Second
)

// bursts are rounds of the profile contests without pauses, on a register of their own, for when
// something happens to the cluster: the clients of the profiles pause between two steps, and wait
// for long where an API server does not answer.
type bursts struct {
	t  *Traffic
	of *collection
	// running is set while a burst is running, which uses the fields below.
	running atomic.Bool
	random  *rand.Rand
	values  []*values // of the client of each API server
	rounds  int       // so far
}

// newBursts returns nil if the traffic has neither registers nor contests.
func newBursts(t *Traffic) *bursts {
	if !slices.Contains(t.cfg.Profiles, ProfileRegisters) && !slices.Contains(t.cfg.Profiles, ProfileContests) {
		return nil
	}
	return &bursts{t: t, of: &collection{name: "bursts-" + t.suffix}, random: t.random()}
}

// Burst starts three rounds in which one client of each API server updates the same version of one
// register at the same moment (purpose "burst", with a timeout of 2 s), and returns: they run in
// the background. It does nothing if an earlier burst is still running, or if the traffic has
// neither registers nor contests. Stop waits for the round that is under way; Burst must not be
// called after it.
func (t *Traffic) Burst() {
	b := t.bursts
	if b == nil || !b.running.CompareAndSwap(false, true) {
		return
	}
	t.clients.Go(func() {
		defer b.running.Store(false)
		b.run()
	})
}

func (b *bursts) run() {
	var clients []*registers
	defer func() {
		for _, r := range clients {
			b.t.drop(r)
		}
	}()
	for i, e := range apiServers(b.t.cfg.Cluster.Entrances()) {
		r, err := b.t.client(e, "burst/"+e.Name, "burst")
		if err != nil {
			return // start made clients of the same configuration
		}
		r.of, r.timeout = b.of, burstTimeout
		clients = append(clients, r)
		if i == len(b.values) {
			b.values = append(b.values, newValues(b.random, fmt.Sprintf("h%d", i), 0))
		}
	}
	if len(clients) < 2 {
		return // a single client has no rival
	}
	for range burstRounds {
		if b.t.stopping() {
			return
		}
		contest(b.t.ctx, b.key(), b.random, clients, b.values, b.rounds)
		b.rounds++
	}
}

func (b *bursts) key() string { return "burst-" + b.t.suffix }

func (b *bursts) finish(ctx context.Context) {
	if b != nil && b.rounds > 0 {
		b.t.deleteCollection(ctx, b.of)
	}
}
