package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Config describes the general traffic. The zero value of each field but
// Entrances is useful.
type Config struct {
	// Seed is what the choices of all clients derive from.
	Seed uint64
	// Entrances are the ways in; each gets clients of its own.
	Entrances []framework.Entrance
	// ClientsPerEntrance is 2 where 0.
	ClientsPerEntrance int
	// Keys is the number of registers that all clients share, 5 where 0.
	Keys int
	// Interval is the mean pause of a client between two operations, 50 ms
	// where 0. Each pause is drawn from ± 50 % around it.
	Interval time.Duration
	// Timeout is how long a client waits for an answer, 5 s where 0.
	Timeout time.Duration
	// Namespace is created if need be, DefaultNamespace where empty.
	Namespace string
}

func (c Config) withDefaults() Config {
	if c.ClientsPerEntrance == 0 {
		c.ClientsPerEntrance = 2
	}
	if c.Keys == 0 {
		c.Keys = 5
	}
	if c.Interval == 0 {
		c.Interval = 50 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	return c
}

const (
	// setupLimit is how long Start tries to create the namespace.
	setupLimit = 30 * time.Second
	// finalLimit is Traffic.final outside of tests.
	finalLimit = 15 * time.Second
)

// Traffic is traffic under way.
type Traffic struct {
	cfg  Config
	ctx  context.Context
	w    *record.Writer
	keys []string
	stop chan struct{}
	once sync.Once
	// final is how long Stop tries to read every register once more.
	final   time.Duration
	clients sync.WaitGroup
}

// Start begins the traffic. Ending ctx breaks it off: operations under way
// then end as unknown, and Stop makes no final reads. An error means that
// nothing was started.
func Start(ctx context.Context, cfg Config, w *record.Writer) (*Traffic, error) {
	cfg = cfg.withDefaults()
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, cfg.Entrances, cfg.Namespace); err != nil {
		return nil, fmt.Errorf("start traffic: %w", err)
	}
	t := &Traffic{cfg: cfg, ctx: ctx, w: w, stop: make(chan struct{}), final: finalLimit}
	suffix := fresh()
	for i := range cfg.Keys {
		t.keys = append(t.keys, fmt.Sprintf("register-%d-%s", i, suffix))
	}
	var all []*trafficClient
	for _, e := range cfg.Entrances {
		for i := range cfg.ClientsPerEntrance {
			r, err := newRegisters(e, t.w, fmt.Sprintf("%s/%d", e.Name, i), cfg.Namespace, "", cfg.Timeout)
			if err != nil {
				return nil, fmt.Errorf("start traffic: %w", err)
			}
			n := len(all)
			all = append(all, &trafficClient{
				registers: r, number: n, keys: t.keys, known: map[string]string{},
				random: rand.New(rand.NewPCG(cfg.Seed, uint64(n))),
			})
		}
	}
	for _, c := range all {
		t.clients.Go(func() { t.run(c) })
	}
	return t, nil
}

// Keys returns the keys of the registers.
func (t *Traffic) Keys() []string { return append([]string(nil), t.keys...) }

// Err returns the first error of writing to the record.
func (t *Traffic) Err() error { return t.w.Err() }

// Stop lets every operation under way end, then reads every register once more
// through each API server (purpose "final-read"), trying for 15 s at most.
// Calling it again waits for the same.
func (t *Traffic) Stop() {
	t.once.Do(func() {
		close(t.stop)
		t.clients.Wait()
		t.finalReads()
	})
}

func (t *Traffic) run(c *trafficClient) {
	defer c.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(c.pause(t.cfg.Interval))
		select {
		case <-t.stop:
			return
		case <-t.ctx.Done():
			return
		case <-timer.C:
			c.act(t.ctx)
		}
	}
}

func (t *Traffic) finalReads() {
	ctx, cancel := context.WithTimeout(t.ctx, t.final)
	defer cancel()
	var readers sync.WaitGroup
	for _, e := range apiServers(t.cfg.Entrances) {
		r, err := newRegisters(e, t.w, "final/"+e.Name, t.cfg.Namespace, "final-read", t.cfg.Timeout)
		if err != nil {
			continue // Start made clients of the same configuration
		}
		readers.Go(func() {
			defer r.close()
			for _, key := range t.keys {
				for ctx.Err() == nil && r.get(ctx, key).Outcome != record.OK {
					client.Pause(ctx, 250*time.Millisecond)
				}
			}
		})
	}
	readers.Wait()
}

// trafficClient is one client of the general traffic.
type trafficClient struct {
	*registers
	number   int
	sequence int
	keys     []string
	random   *rand.Rand
	// known is the last resourceVersion that this client saw of each key.
	known map[string]string
}

func (c *trafficClient) pause(mean time.Duration) time.Duration {
	return mean/2 + time.Duration(c.random.Int64N(int64(mean)+1))
}

// value returns a value that nobody else writes.
func (c *trafficClient) value() string {
	c.sequence++
	return fmt.Sprintf("c%d-%d", c.number, c.sequence)
}

// act makes one step: a read; a read followed at once by the write that fits
// (half of all steps, since an update of a version that was read long ago would
// nearly always lose); or a blind create, update of an old version, or delete.
func (c *trafficClient) act(ctx context.Context) {
	key := c.keys[c.random.IntN(len(c.keys))]
	switch dice := c.random.IntN(100); {
	case dice < 35:
		c.read(ctx, key)
	case dice < 85:
		seen, ok := c.read(ctx, key)
		switch {
		case !ok:
		case !seen.Found:
			c.learn(c.create(ctx, key, c.value()))
		case dice < 80:
			c.learn(c.update(ctx, key, c.value(), seen.Revision))
		default:
			c.learn(c.delete(ctx, key, seen.Revision))
		}
	case dice < 90:
		c.learn(c.create(ctx, key, c.value()))
	case dice < 95 && c.known[key] != "":
		c.learn(c.update(ctx, key, c.value(), c.known[key]))
	default:
		c.learn(c.delete(ctx, key, ""))
	}
}

func (c *trafficClient) read(ctx context.Context, key string) (op record.Op, ok bool) {
	op = c.get(ctx, key)
	c.learn(op)
	return op, op.Outcome == record.OK
}

func (c *trafficClient) learn(op record.Op) {
	if op.Outcome == record.OK && op.Revision != "" {
		c.known[op.Key] = op.Revision
	}
}
