package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// setupLimit is how long Start tries to create the namespace.
	setupLimit = 30 * time.Second
	// finalLimit is Traffic.final outside of tests.
	finalLimit = 15 * time.Second
)

// Traffic is running traffic.
type Traffic struct {
	cfg       Config
	ctx       context.Context
	cancel    context.CancelFunc
	w         *record.Writer
	suffix    string      // of everything that this traffic creates
	registers *collection // of the profiles registers, lists and watches
	profiles  []profile
	bursts    *bursts       // nil without the profiles that contend for registers
	watches   atomic.Int64  // how many there were, for their IDs
	randoms   atomic.Uint64 // how many random sources there are
	// joins start the clients of one profile each for a node that joins.
	joins []func(node string) error

	mu   sync.Mutex
	ways map[string][]*client.API // by the node whose API server they go to; guarded by mu
	left map[string]chan struct{} // closed when the node leaves; guarded by mu

	stop  chan struct{}
	once  sync.Once
	final time.Duration // how long each profile may take to finish
	// patience is how long watches may take to show the last writes.
	patience time.Duration
	clients  sync.WaitGroup // except those that watch: they run until finish
}

// profile is one kind of traffic.
type profile interface {
	// start starts its clients.
	start() error
	// finish does the final steps once the clients of all profiles have stopped. It respects ctx.
	finish(ctx context.Context)
}

// Start starts the traffic. Cancelling ctx aborts it: operations in flight are recorded as
// unknown, and Stop makes no final reads. An error means that nothing was started.
//
// If the cluster gives no access to its etcd members, the profile etcd is left out, and the
// record says so.
func Start(ctx context.Context, cfg Config, w *record.Writer) (*Traffic, error) {
	if err := cfg.err(); err != nil {
		return nil, fmt.Errorf("failed to start traffic: %w", err)
	}
	cfg = cfg.withDefaults()
	if slices.ContainsFunc(cfg.Profiles, func(name string) bool { return name != ProfileEtcd }) {
		setup, cancel := context.WithTimeout(ctx, setupLimit)
		defer cancel()
		if err := EnsureNamespace(setup, cfg.Cluster.Entrances(), DefaultNamespace); err != nil {
			return nil, fmt.Errorf("failed to start traffic: %w", err)
		}
	}
	t := &Traffic{cfg: cfg, w: w, suffix: fresh(), ways: map[string][]*client.API{}, left: map[string]chan struct{}{}, stop: make(chan struct{}), final: finalLimit, patience: lastWriteLimit}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.registers = &collection{name: t.suffix}
	if err := t.start(); err != nil {
		t.cancel()
		t.Stop()
		return nil, fmt.Errorf("failed to start traffic: %w", err)
	}
	return t, nil
}

func (t *Traffic) start() error {
	access, _ := t.cfg.Cluster.(framework.EtcdAccess)
	for _, k := range profileKinds() {
		if !slices.Contains(t.cfg.Profiles, k.name) {
			continue
		}
		leaveOut := func(why string) {
			_ = t.w.Append(record.KindPhase, record.Phase{Name: "traffic " + k.name + " is left out: " + why})
		}
		if k.name == ProfileEtcd && access == nil {
			leaveOut(fmt.Sprintf("cluster %s gives no access to its etcd members", t.cfg.Cluster.Name()))
			continue
		}
		p := k.make(t)
		switch err := p.start(); {
		case errors.Is(err, errNoPlace):
			leaveOut(err.Error())
			continue
		case err != nil:
			return fmt.Errorf("profile %s: %w", k.name, err)
		}
		t.profiles = append(t.profiles, p)
	}
	t.bursts = newBursts(t)
	return nil
}

// Stop waits for every operation in flight. Then, with at most 15 s for each step, it reads every
// register as the traffic left it (purpose "final-read"), writes it once more (purpose
// "final-write"), reads and lists the registers and the set through each API server (purpose
// "final-read"), and waits until every watch has shown these writes, so that a lost last event is
// detected. Calling it again waits for the same.
func (t *Traffic) Stop() {
	t.once.Do(func() {
		close(t.stop)
		t.clients.Wait()
		within := func(finish func(context.Context)) {
			ctx, cancel := context.WithTimeout(t.ctx, t.final)
			defer cancel()
			finish(ctx)
		}
		for _, p := range t.profiles {
			within(p.finish)
		}
		within(t.bursts.finish)
		t.cancel()
	})
}

// Leave stops what goes to a node: it is about to be removed, and clients would wait for answers
// until they time out.
func (t *Traffic) Leave(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, api := range t.ways[node] {
		api.Leave()
	}
	delete(t.ways, node)
	if left := t.left[node]; left != nil {
		close(left)
		delete(t.left, node)
	}
}

// Join starts clients for a node that has joined the cluster, as Start does for each node. It must
// not be called after Stop.
func (t *Traffic) Join(node string) error {
	for _, join := range t.joins {
		if err := join(node); err != nil {
			return fmt.Errorf("failed to start traffic through %s: %w", node, err)
		}
	}
	return nil
}

// leaving returns a channel that is closed when a node leaves.
func (t *Traffic) leaving(node string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left[node] == nil {
		t.left[node] = make(chan struct{})
	}
	return t.left[node]
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (t *Traffic) random() *rand.Rand {
	return rand.New(rand.NewPCG(t.cfg.Seed, t.randoms.Add(1)-1))
}

// forEach calls start for each of some entrances, and for the API servers of nodes that join later.
func (t *Traffic) forEach(entrances []framework.Entrance, start func(framework.Entrance) error) error {
	t.joins = append(t.joins, func(node string) error {
		for _, e := range apiServers(t.cfg.Cluster.Entrances()) {
			if e.Node == node {
				return start(e)
			}
		}
		return nil
	})
	for _, e := range entrances {
		if err := start(e); err != nil {
			return err
		}
	}
	return nil
}

// perEntrance creates each clients of the registers for each entrance and runs them. run receives
// the number of the client in its profile.
func (t *Traffic) perEntrance(profile string, each int, run func(r *registers, random *rand.Rand, number int)) error {
	n, of := 0, map[string]int{}
	return t.forEach(t.cfg.Cluster.Entrances(), func(e framework.Entrance) error {
		for range each {
			r, err := t.client(e, fmt.Sprintf("%s/%s/%d", profile, e.Name, of[e.Name]), "")
			if err != nil {
				return err
			}
			random, number := t.random(), n
			n++
			of[e.Name]++
			t.clients.Go(func() {
				defer r.close()
				run(r, random, number)
			})
		}
		return nil
	})
}

func (t *Traffic) client(e framework.Entrance, name, purpose string) (*registers, error) {
	r, err := newRegisters(e, t.w, name, DefaultNamespace, purpose, t.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	r.of = t.registers
	if e.Kind == framework.EntranceAPIServer {
		r.left = t.leaving(e.Node)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ways[e.Node] = append(t.ways[e.Node], r.api)
	}
	return r, nil
}

// drop closes a client that is not used until the traffic stops.
func (t *Traffic) drop(r *registers) {
	r.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, apis := range t.ways {
		t.ways[node] = slices.DeleteFunc(apis, func(api *client.API) bool { return api == r.api })
	}
}

// loop makes a client act, with pauses, until the traffic stops, or its node has left.
func (t *Traffic) loop(left <-chan struct{}, random *rand.Rand, mean time.Duration, act func(context.Context)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(around(random, mean))
		select {
		case <-left:
			return
		case <-t.stop:
			return
		case <-t.ctx.Done():
			return
		case <-timer.C:
			act(t.ctx)
		}
	}
}

func (t *Traffic) stopping() bool { return closed(t.stop) || t.ctx.Err() != nil }

// around draws a time from ± 50 % around its mean.
func around(random *rand.Rand, mean time.Duration) time.Duration {
	return mean/2 + time.Duration(random.Int64N(int64(mean)+1))
}

// finally has a client of each API server do something, all in parallel (purpose "final-read").
func (t *Traffic) finally(ctx context.Context, do func(context.Context, *registers)) {
	_ = framework.Each(apiServers(t.cfg.Cluster.Entrances()), func(e framework.Entrance) error {
		r, err := t.client(e, "final/"+e.Name, "final-read")
		if err != nil {
			return err // start made clients of the same configuration
		}
		defer r.close()
		do(ctx, r)
		return nil
	})
}

// tryUntil retries, with pauses, until do is done or ctx has ended, and reports which.
func tryUntil(ctx context.Context, done func() bool) bool {
	for ctx.Err() == nil {
		if done() {
			return true
		}
		client.Pause(ctx, 250*time.Millisecond)
	}
	return false
}
