package observe

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// processTimeout is how long a node may take to answer.
const processTimeout = 2 * time.Second

// processes records the state of each node's components and of their process watcher: all
// of it at the start and at the end, and each change in between.
func (o *Observers) processes(context.Context) ([]func(context.Context), error) {
	var loops []func(context.Context)
	for _, n := range o.nodes() {
		if reporter, ok := n.(framework.ProcessReporter); ok {
			components := func() []framework.Component { return append(slices.Clip(n.Components()), framework.NodeAgent) }
			loops = append(loops, o.while(n.Name(), o.processesOf(n.Name(), reporter, components)))
		}
	}
	return loops, nil
}

// balancerProcess does the same for the load balancer, under the name of its host.
func (o *Observers) balancerProcess(context.Context) ([]func(context.Context), error) {
	isBalancer := func(e framework.Entrance) bool { return e.Kind == framework.EntranceBalancer }
	reporter, ok := o.cfg.Cluster.(framework.ProcessReporter)
	if !ok || !slices.ContainsFunc(o.cfg.Cluster.Entrances(), isBalancer) {
		return nil, nil
	}
	components := func() []framework.Component { return []framework.Component{framework.LoadBalancer} }
	return []func(context.Context){o.processesOf(framework.BalancerHost, reporter, components)}, nil
}

func (o *Observers) processesOf(host string, reporter framework.ProcessReporter, components func() []framework.Component) func(context.Context) {
	return func(ctx context.Context) {
		last := map[framework.Component]record.ProcessState{}
		looked := map[framework.Component]record.Nanos{} // when it was last queried
		look := func(ctx context.Context, c framework.Component) record.ProcessState {
			asked := o.w.Now()
			p := processState(ctx, host, reporter, c)
			p.Asked, p.Before = asked, looked[c]
			return p
		}
		every(ctx, o.cfg.StatusInterval, func() {
			for _, c := range components() {
				p := look(ctx, c)
				if ctx.Err() != nil {
					return
				}
				looked[c] = p.Asked
				old, known := last[c]
				if !known || changed(old, p) {
					_ = o.w.Append(record.KindProcess, p)
				}
				last[c] = p
			}
		})
		// Stop has cancelled ctx; the last check must not depend on it.
		final, cancel := context.WithTimeout(context.WithoutCancel(ctx), processTimeout)
		defer cancel()
		for _, c := range components() {
			_ = o.w.Append(record.KindProcess, look(final, c))
		}
	}
}

func processState(ctx context.Context, node string, r framework.ProcessReporter, c framework.Component) record.ProcessState {
	ctx, cancel := context.WithTimeout(ctx, processTimeout)
	defer cancel()
	s := record.ProcessState{Node: node, Component: string(c)}
	p, err := r.Process(ctx, c)
	if err != nil {
		s.Error = client.Shorten(err.Error())
		return s
	}
	s.PID, s.StartTicks, s.State, s.Restarts, s.LastExit = p.PID, p.StartTicks, p.State, p.Restarts, p.LastExit
	s.Standby = p.Standby
	return s
}

// changed leaves out what changes all the time (running or sleeping) and the
// wording of errors.
func changed(a, b record.ProcessState) bool {
	return a.PID != b.PID || a.StartTicks != b.StartTicks || a.Restarts != b.Restarts || a.LastExit != b.LastExit || a.Standby != b.Standby ||
		stateClass(a.State) != stateClass(b.State) || (a.Error == "") != (b.Error == "")
}

func stateClass(state string) string {
	switch state {
	case "R", "S", "D", "I":
		return "alive"
	}
	return state
}
