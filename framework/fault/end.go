package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// restartParam says whether the component is started again.
var restartParam = boolParam("restart", "true: the node's process watcher restarts it as usual; false: it is held down until healed or until its time to live expires", false)

// ends are the effects of a fault that kills or stops a process.
func ends(values map[string]string) []record.Effect {
	if values["restart"] == "true" {
		return []record.Effect{record.EffectRestarted}
	}
	return []record.Effect{record.EffectDown}
}

// restartLimit is how long an injection with restart=true waits for the next process, only to
// report it: a watcher may back off for longer, and the fault took effect anyway.
const restartLimit = 2 * time.Second

// end stops or kills a component and heals it.
type end struct {
	process
	fault   string
	restart bool
	orderly bool // an exit by SIGKILL is reported
	ttl     time.Duration
	starter framework.Starter
	// finish stops or kills the component, and holds it down for a time.
	finish func(context.Context, framework.Component, time.Duration) error
}

// end returns the end for the request's component: orderly, or by SIGKILL.
func (r Request) end(orderly bool) (e end, err error) {
	e = end{fault: r.Fault.Name, ttl: r.TTL, orderly: orderly}
	if orderly {
		stopper, err := onTarget[framework.Stopper](r)
		if err != nil {
			return e, err
		}
		e.finish = stopper.Stop
	} else {
		killer, err := onTarget[framework.Killer](r)
		if err != nil {
			return e, err
		}
		e.finish = killer.Kill
	}
	if e.process, err = r.process(); err != nil {
		return e, err
	}
	e.starter, err = onTarget[framework.Starter](r)
	return e, err
}

// ending ends the request's component, orderly or by SIGKILL.
func (r Request) ending(orderly bool) (Inject, error) {
	e, err := r.end(orderly)
	e.restart = Value[bool](r, restartParam.Name)
	return e.inject, err
}

func (e end) inject(ctx context.Context) (Injection, error) {
	old, none, err := e.before(ctx)
	if err != nil || none != nil {
		return none, err
	}
	hold := e.ttl
	if e.restart {
		hold = 0
	}
	killed := false
	a := attempt{
		target: e.target,
		what:   fmt.Sprintf("%s of %s", e.fault, e.target.String()),
		ask:    func(ctx context.Context) error { return e.finish(ctx, e.target.Component, hold) },
		effect: e.gone(old, &killed),
		undo:   func(ctx context.Context) error { return e.starter.Start(ctx, e.target.Component) },
		healed: e.orAway(e.runs),
	}.oneRequest()
	if !e.restart {
		// A reboot of the node starts the component.
		a.lasts = e.orAway(e.shows(func(now framework.Process) (bool, string) {
			return now.Ended(), fmt.Sprintf("%s already ran as %s", e.target.String(), now.ID())
		}))
	}
	i, err := a.inject(ctx)
	if err != nil {
		return nil, err
	}
	i.proof.Killed = killed
	if e.restart {
		if i.proof.Proven {
			_, _, seen := await(ctx, restartLimit, e.orStandsBy(e.replaced(old)))
			i.proof.What += "; " + seen
		}
		i.undo = func(ctx context.Context) (Proof, error) { return e.healRestarted(ctx, old) }
	}
	return i, nil
}

// gone checks whether the process has exited and, if it is to be held down, no other has replaced
// it. killed receives whether it had to be killed although it was to stop gracefully.
func (e end) gone(old framework.Process, killed *bool) look {
	return e.shows(func(now framework.Process) (bool, string) {
		switch {
		case !now.Ended() && same(now, old):
			return false, fmt.Sprintf("%s still runs as %s", e.target.String(), old.ID())
		case !now.Ended() && !e.restart:
			return false, fmt.Sprintf("%s, %s, is gone but is not held down: it runs as %s", e.target.String(), old.ID(), now.ID())
		}
		if *killed = e.orderly && now.LastExit == killedExit; *killed {
			return true, fmt.Sprintf("%s, %s, did not stop gracefully within its grace period, and was killed", e.target.String(), old.ID())
		}
		return true, fmt.Sprintf("%s, %s, is gone%s", e.target.String(), old.ID(), lastExit(now))
	})
}

func lastExit(p framework.Process) string {
	if p.LastExit == "" {
		return ""
	}
	return " (" + p.LastExit + ")"
}

// replaced checks whether another process has replaced the old one.
func (e end) replaced(old framework.Process) look {
	return e.shows(func(now framework.Process) (bool, string) {
		if now.Ended() || same(now, old) {
			return false, "the process watcher has not restarted it"
		}
		return true, "the process watcher restarted it as " + now.ID()
	})
}

// healRestarted waits for the process watcher's own restart: the watcher is part of the cluster
// under test. If it does not restart the component, healRestarted starts it, so that nothing is
// left broken, and there is no proof.
func (e end) healRestarted(ctx context.Context, old framework.Process) (Proof, error) {
	restarted := all(e.replaced(old), e.runs)
	proof := Prove(ctx, time.Now(), healLimit, e.orAway(restarted))
	if proof.Proven {
		return proof, nil
	}
	if held, seen := e.orHeld(restarted)(ctx); held {
		return Proof{Proven: true, What: seen, Called: proof.Called, Effect: time.Now()}, nil
	}
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := e.starter.Start(undoing, e.target.Component); err != nil {
		return proof, fmt.Errorf("failed to start %s, which its process watcher did not restart (%s): %w", e.target.String(), proof.What, err)
	}
	proof.What += "; a start was requested"
	return proof, nil
}
