package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// attemptClients read and write attemptRounds times each through an API server, so that
	// there are 10 reads and 10 writes.
	attemptClients = 5
	attemptRounds  = 2
	attemptTimeout = 2 * time.Second
)

// Attempts reads the registers and creates others, 10 times each through every API server
// (purpose "attempt", with a timeout of 2 s), whatever the outcome: the clients of the profiles
// wait so long for a response that few of them try while nothing answers. It takes at most 4 s.
func (t *Traffic) Attempts(ctx context.Context) error {
	keys := t.registers.keys
	if len(keys) == 0 {
		return errors.New("attempts: the traffic has no profile registers")
	}
	suffix := fresh()
	var all sync.WaitGroup
	defer all.Wait()
	for _, e := range apiServers(t.cfg.Cluster.Entrances()) {
		for i := range attemptClients {
			name := fmt.Sprintf("attempts/%s/%d", e.Name, i)
			r, err := t.client(e, name, "attempt")
			if err != nil {
				return fmt.Errorf("attempts: %w", err)
			}
			r.timeout = attemptTimeout
			reads, writes := *r, *r
			reads.name, writes.name = name+"/read", name+"/write"
			writes.of = nil // not among those listed and watched
			var both sync.WaitGroup
			both.Go(func() { tryRounds(ctx, func(n int) record.Op { return reads.get(ctx, keys[(i+n)%len(keys)]) }) })
			both.Go(func() {
				tryRounds(ctx, func(n int) record.Op {
					return writes.create(ctx, fmt.Sprintf("attempt-%s-%d-%d-%s", e.Name, i, n, suffix), content{value: name})
				})
			})
			all.Go(func() { both.Wait(); r.close() })
		}
	}
	return nil
}

func tryRounds(ctx context.Context, try func(n int) record.Op) {
	for n := range attemptRounds {
		if ctx.Err() != nil {
			return
		}
		try(n)
	}
}
