package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// backendsTimeout is how long the balancer may take to answer.
	backendsTimeout = 2 * time.Second
	// sinceJitter is how far two readings of the same change may differ: some balancers report
	// its age only to the second.
	sinceJitter = 2 * time.Second
)

// backendView is what the load balancer last reported. It is queried once at a time, so that a
// record has its answers in the order of the queries.
type backendView struct {
	mu     sync.Mutex
	last   map[string]record.Backend // by name
	silent bool                      // it did not answer the last query
	never  bool                      // it cannot report its backends
}

// backends records the load balancer's view of its backends: the whole view at the start, and
// each change.
func (o *Observers) backends(context.Context) ([]func(context.Context), error) {
	if _, ok := o.cfg.Cluster.(framework.BackendReporter); !ok {
		return nil, nil
	}
	return []func(context.Context){func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		every(ctx, o.cfg.StatusInterval, func() {
			if !o.viewBackends(ctx, false) {
				stop()
			}
		})
	}}, nil
}

// ListBackends records, once, the load balancer's whole view of its backends, if it reports them.
func (o *Observers) ListBackends(ctx context.Context) { o.viewBackends(ctx, true) }

// viewBackends queries the load balancer and records its view: the whole of it, or what has
// changed since the last query. It returns false if the load balancer can never report it.
func (o *Observers) viewBackends(ctx context.Context, whole bool) bool {
	reporter, ok := o.cfg.Cluster.(framework.BackendReporter)
	v := &o.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if !ok || v.never {
		return false
	}
	states, err := o.askBalancer(ctx, reporter)
	switch {
	case ctx.Err() != nil:
		return true
	case errors.Is(err, errors.ErrUnsupported):
		v.never = true
		_ = o.w.Append(record.KindBackend, record.Backend{Missing: client.Shorten(err.Error())})
		return false
	case err != nil:
		if !v.silent {
			_ = o.w.Append(record.KindBackend, record.Backend{Error: client.Shorten(err.Error())})
		}
		v.silent, v.last = true, nil // everything is recorded again afterwards
		return true
	}
	said := map[string]record.Backend{} // those left out are recorded again
	for _, b := range states {
		if old, known := v.last[b.Name]; whole || !known || backendChanged(old, b) {
			_ = o.w.Append(record.KindBackend, b)
		}
		said[b.Name] = b
	}
	v.silent, v.last = false, said
	return true
}

func (o *Observers) askBalancer(ctx context.Context, reporter framework.BackendReporter) ([]record.Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, backendsTimeout)
	defer cancel()
	asked := o.w.Now()
	states, err := reporter.Backends(ctx)
	if err != nil {
		return nil, err
	}
	var all []record.Backend
	for _, s := range states {
		all = append(all, record.Backend{Name: s.Name, Address: s.Address, Up: s.Up, Standby: s.Standby, Holder: s.Holder, Since: o.w.Since(s.Since), Check: client.Shorten(s.Check), Asked: asked})
	}
	return all, nil
}

// backendChanged ignores the wording of checks.
func backendChanged(a, b record.Backend) bool {
	return a.Up != b.Up || a.Standby != b.Standby || a.Address != b.Address || time.Duration(b.Since-a.Since).Abs() > sinceJitter
}
