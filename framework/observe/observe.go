package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Config says what to observe and how often. The zero value of each field but
// Cluster is useful.
type Config struct {
	Cluster framework.Cluster
	// ProbeInterval is the time between two quorum reads of an entrance on a persistent connection,
	// 100 ms if 0. All others follow from it: cached reads, writes and watches every 5 intervals; on
	// new connections, which cost a TLS handshake on both sides, quorum reads every 10 intervals,
	// the rest every 15. That is 1.7 probes per interval for each entrance: 68 a second for three
	// nodes and a balancer. Clients with client-go's transport add 0.9.
	ProbeInterval time.Duration
	// ReadTimeout and WriteTimeout are how long a probe waits for a response, 3 s and 10 s if 0.
	ReadTimeout, WriteTimeout time.Duration
	// StatusInterval is the time between two samples of an etcd member and a process, 500 ms if
	// 0.
	StatusInterval time.Duration
	// LeaseInterval is the time between two samples of a lease through one entrance, 1 s if 0.
	// The entrances take turns.
	LeaseInterval time.Duration
	// EndpointInterval is the time between two samples of the kubernetes service's addresses, in
	// addition to watches; 1 s if 0.
	EndpointInterval time.Duration
	// MemberInterval is the time between two readings of an etcd member's member list and disk
	// latencies, 5 s if 0.
	MemberInterval time.Duration
	// Leases are the names of the leases in kube-system to sample; nil means those of all elected
	// components of the cluster.
	Leases []string
	// Unprepared means that the cluster may refuse the writes that create the objects of the
	// probes: it is observed all the same, and probes of objects that do not exist fail.
	Unprepared bool
}

func (c Config) withDefaults() Config {
	c.ProbeInterval = cmp.Or(c.ProbeInterval, 100*time.Millisecond)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 3*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.StatusInterval = cmp.Or(c.StatusInterval, 500*time.Millisecond)
	c.LeaseInterval = cmp.Or(c.LeaseInterval, time.Second)
	c.EndpointInterval = cmp.Or(c.EndpointInterval, time.Second)
	c.MemberInterval = cmp.Or(c.MemberInterval, 5*time.Second)
	return c
}

// leasesOf returns the names of the leases of all elected components of a cluster.
func leasesOf(c framework.Cluster) []string {
	names := elected()
	for _, further := range slices.Sorted(maps.Keys(c.Settings().Elections)) {
		if !slices.Contains(names, string(further)) {
			names = append(names, string(further))
		}
	}
	return names
}

// elected are the elected components of every cluster, and their leases.
func elected() []string {
	return []string{string(framework.ControllerManager), string(framework.Scheduler)}
}

const (
	// setupLimit is how long Start tries to create the objects of write probes.
	setupLimit = 30 * time.Second
	// unpreparedLimit is the same for a cluster that may refuse them.
	unpreparedLimit = 5 * time.Second
)

// Observers are running observers.
type Observers struct {
	cfg     Config
	only    framework.Node // the one that joined; nil for the whole cluster
	cancel  context.CancelFunc
	running sync.WaitGroup
	w       *record.Writer
	closers []func()
	seen    []sighting  // of each lease
	pods    sync.Map    // the node of each pod that held one, by its name
	view    backendView // of the load balancer
	members
}

// preparation returns the loops of an observer.
type preparation func(context.Context) ([]func(context.Context), error)

// ofNodes are the observers of nodes, and of the entrances through their API servers.
func (o *Observers) ofNodes() []preparation {
	return []preparation{o.availability, o.endpoints, o.leases, o.locks, o.actions, o.etcd, o.processes}
}

// Start sets up and starts all observers; they continue until Stop, or until ctx ends. It needs a
// working cluster, unless it is Unprepared: probes write to objects that Start creates in the
// namespace holdfast-probes. An error means that nothing was started.
func Start(ctx context.Context, cfg Config, w *record.Writer) (*Observers, error) {
	cfg = cfg.withDefaults()
	if cfg.Leases == nil {
		cfg.Leases = leasesOf(cfg.Cluster)
	}
	o := &Observers{cfg: cfg, w: w, seen: make([]sighting, len(cfg.Leases))}
	if err := o.start(ctx, append(o.ofNodes(), o.clients, o.balancerProcess, o.backends, o.sessions, o.harness)); err != nil {
		return nil, err
	}
	return o, nil
}

// startAlone starts one observer in addition to the others; stop stops it.
func startAlone(ctx context.Context, cfg Config, w *record.Writer, prepare func(*Observers, context.Context) ([]func(context.Context), error)) (stop func(), err error) {
	o := &Observers{cfg: cfg.withDefaults(), w: w}
	if err := o.start(ctx, []preparation{func(ctx context.Context) ([]func(context.Context), error) { return prepare(o, ctx) }}); err != nil {
		return nil, err
	}
	return o.Stop, nil
}

func (o *Observers) start(ctx context.Context, all []preparation) error {
	ctx, o.cancel = context.WithCancel(ctx)
	var loops []func(context.Context)
	for _, prepare := range all {
		more, err := prepare(ctx)
		if err != nil {
			o.Stop()
			return fmt.Errorf("failed to start observers: %w", err)
		}
		loops = append(loops, more...)
	}
	for _, loop := range loops {
		o.running.Go(func() { loop(ctx) })
	}
	return nil
}

// setup limits the preparation of an observer.
func (o *Observers) setup(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.cfg.Unprepared {
		return context.WithTimeout(ctx, unpreparedLimit)
	}
	return context.WithTimeout(ctx, setupLimit)
}

// Stop stops all observers and waits for them. Probes in flight are dropped and not recorded.
// Calling it again does nothing.
func (o *Observers) Stop() {
	o.cancel()
	o.stopParts()
	o.running.Wait()
	for _, c := range o.closers {
		c()
	}
	o.closers = nil
}

// Err returns the first error of writing to the record.
func (o *Observers) Err() error { return o.w.Err() }

// api returns a client that Stop closes.
func (o *Observers) api(e framework.Entrance, opts client.Options) (*client.API, error) {
	api, err := client.NewAPI(e.Config, opts)
	if err != nil {
		return nil, fmt.Errorf("entrance %s: %w", e.Name, err)
	}
	o.closers = append(o.closers, api.Close)
	return api, nil
}

// every calls do immediately and then each interval until ctx ends. If a call takes longer, it
// skips intervals instead of piling up.
func every(ctx context.Context, interval time.Duration, do func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}
