package observe

import (
	"context"
	"errors"
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

// backends records the load balancer's view of its backends: the whole view at the start, and
// each change.
func (o *Observers) backends(context.Context) ([]func(context.Context), error) {
	reporter, ok := o.cfg.Cluster.(framework.BackendReporter)
	if !ok {
		return nil, nil
	}
	return []func(context.Context){func(ctx context.Context) {
		last, silent := map[string]record.Backend{}, false
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		every(ctx, o.cfg.StatusInterval, func() {
			states, err := o.askBalancer(ctx, reporter)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, errors.ErrUnsupported):
				_ = o.w.Append(record.KindBackend, record.Backend{Missing: client.Shorten(err.Error())})
				stop()
				return
			case err != nil:
				if !silent {
					_ = o.w.Append(record.KindBackend, record.Backend{Error: client.Shorten(err.Error())})
				}
				silent = true
				clear(last) // everything is recorded again afterwards
				return
			}
			silent = false
			said := map[string]record.Backend{} // those left out are recorded again
			for _, b := range states {
				if old, known := last[b.Name]; !known || backendChanged(old, b) {
					_ = o.w.Append(record.KindBackend, b)
				}
				said[b.Name] = b
			}
			last = said
		})
	}}, nil
}

func (o *Observers) askBalancer(ctx context.Context, reporter framework.BackendReporter) ([]record.Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, backendsTimeout)
	defer cancel()
	states, err := reporter.Backends(ctx)
	if err != nil {
		return nil, err
	}
	var all []record.Backend
	for _, s := range states {
		all = append(all, record.Backend{Name: s.Name, Address: s.Address, Up: s.Up, Standby: s.Standby, Since: o.w.Since(s.Since), Check: client.Shorten(s.Check)})
	}
	return all, nil
}

// backendChanged ignores the wording of checks.
func backendChanged(a, b record.Backend) bool {
	return a.Up != b.Up || a.Standby != b.Standby || a.Address != b.Address || time.Duration(b.Since-a.Since).Abs() > sinceJitter
}
