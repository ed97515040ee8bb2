package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Restart ends a component and has it started again at once.
var Restart Fault = restart{}

type restart struct{}

// restartedLimit is how long the next process may take to show, from the end of
// the one before.
const restartedLimit = 30 * time.Second

func (restart) Name() string { return "restart" }

func (restart) Doc() Doc {
	return Doc{
		Summary: "ends a component and has its process watcher start it again at once, without the back-off of one that fails",
		Targets: processTargets(),
		Params:  map[string]string{"signal": "TERM (default): it ends gracefully; KILL: without notice"},
		Needs:   []string{"Stopper (for signal=TERM)", "Killer (for signal=KILL)", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "apiserver/2 signal=TERM",
	}
}

func (f restart) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

// parts returns what the fault acts on, and how it ends it.
func (f restart) parts(c framework.Cluster, t Target, p Params) (end, func(context.Context, framework.Component, time.Duration) error, error) {
	e, holder, of, err := newEnd(f, c, t, p)
	if err != nil {
		return end{}, nil, err
	}
	sig, err := choiceParam(f, p, "signal", "TERM", "KILL")
	if err != nil {
		return end{}, nil, err
	}
	if sig == "KILL" {
		killer, err := ability[framework.Killer](holder, of, "fault restart")
		if err != nil {
			return end{}, nil, err
		}
		return e, killer.Kill, nil
	}
	stopper, err := ability[framework.Stopper](holder, of, "fault restart")
	if err != nil {
		return end{}, nil, err
	}
	return e, stopper.Stop, nil
}

func (f restart) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	e, finish, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	old, absent, err := e.before(ctx)
	if err != nil {
		return nil, err
	} else if absent != "" {
		return notInjected(t, "%s", absent), nil
	}
	start := func(ctx context.Context) error { return e.starter.Start(ctx, t.Component) }
	return attempt{
		target: t,
		what:   "restart of " + t.String(),
		ask: func(ctx context.Context) error {
			// Held down until it is told to start: so it never waits for
			// the watcher's back-off.
			if err := finish(ctx, t.Component, p.TTL); err != nil {
				return err
			}
			return start(ctx)
		},
		effect: func(ctx context.Context) (bool, string) {
			held, seen := e.replaced(old)(ctx)
			return held, fmt.Sprintf("%s, %s: %s", t.String(), id(old), seen)
		},
		undo:     start,
		healed:   e.orOff(all(e.replaced(old), e.runs)),
		patience: restartedLimit,
	}.injection(ctx)
}
