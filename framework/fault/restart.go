package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// restartedLimit is how long the next process may take to show, from the exit of the previous
// one.
const restartedLimit = 30 * time.Second

// firstBackOff is how long a kubelet takes at most to restart a component that had not exited
// before: 10 to 15 s, and the start itself. If it takes longer, the kubelet backs off from the
// component because of earlier faults, and a second order to start it ends that.
const firstBackOff = 20 * time.Second

// Restart stops a component and has it started again immediately.
var Restart = &Fault{
	Name:    "restart",
	Summary: "stops or kills a component and has its process watcher restart it immediately, without the back-off for a component that keeps failing",
	Targets: processTargets,
	Params:  []Param{choiceParam("signal", "TERM: it stops gracefully; KILL: without notice", "TERM", "KILL")},
	Needs:   []string{"Stopper (for signal=TERM)", "Killer (for signal=KILL)", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "apiserver/2 signal=TERM",
	Effects: does(record.EffectRestarted),
	Prepare: func(r Request) (Inject, error) {
		e, err := r.end(Value[string](r, "signal") == "TERM")
		return e.restarting, err
	},
}

// restarting stops or kills the component and starts it again.
func (e end) restarting(ctx context.Context) (Injection, error) {
	t := e.target
	old, none, err := e.before(ctx)
	if err != nil || none != nil {
		return none, err
	}
	start := func(ctx context.Context) error { return e.starter.Start(ctx, t.Component) }
	refused := false // it is held down by another fault that started in the meantime
	killed, restarted := false, false
	exited := e.shows(func(now framework.Process) (bool, string) {
		if killed = e.orderly && now.LastExit == killedExit; killed {
			return true, "it did not stop gracefully within its grace period, and was killed"
		}
		return true, "it exited" + lastExit(now)
	})
	i, err := attempt{
		target: t,
		what:   "restart of " + t.String(),
		ask: func(ctx context.Context) error {
			// Held down until it is started, so that it never waits for the watcher's
			// back-off.
			err := e.finish(ctx, t.Component, e.ttl)
			if refused = errors.Is(err, framework.ErrNothingDone); err != nil {
				return err
			}
			if err := start(ctx); err != nil {
				return err
			}
			if _, restarted, _ := await(ctx, firstBackOff, e.orStandsBy(e.replaced(old))); restarted || ctx.Err() != nil {
				return nil
			}
			return start(ctx)
		},
		effect: func(ctx context.Context) (held bool, seen string) {
			restarted, seen = all(e.orStandsBy(e.replaced(old)), exited)(ctx)
			return restarted, fmt.Sprintf("%s, %s: %s", t.String(), old.ID(), seen)
		},
		undo: func(ctx context.Context) error {
			if refused || restarted { // if it is down again, another fault holds it down
				return nil
			}
			return start(ctx)
		},
		healed:   e.orHeld(all(e.replaced(old), e.runs)),
		patience: restartedLimit,
	}.inject(ctx)
	if err != nil {
		return nil, err
	}
	i.proof.Killed = killed
	return i, nil
}
