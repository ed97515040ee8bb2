package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// process is the component that a fault acts on, with what its proofs need.
type process struct {
	cluster  framework.Cluster
	target   Target
	reporter framework.ProcessReporter
}

// processTargets are the kinds of target of a fault on a process.
var processTargets = []string{"component", "agent", "balancer", "kwok"}

// process returns the component that the request is about.
func (r Request) process() (p process, err error) {
	p = process{cluster: r.Cluster, target: r.Target}
	holder, of, err := r.holder()
	if err != nil {
		return p, err
	}
	if p.reporter, err = Ability[framework.ProcessReporter](holder, of, r.what()); err != nil {
		return p, err
	}
	if r.Target.Component == framework.Etcd {
		_, err = Ability[framework.EtcdAccess](r.Cluster, "cluster "+r.Cluster.Name(), r.what()+" on etcd")
	}
	return p, err
}

// before returns the process that the fault is about to hit or, if none is running, the injection
// that did nothing.
func (p process) before(ctx context.Context) (now framework.Process, none Injection, err error) {
	now, err = p.reporter.Process(ctx, p.target.Component)
	if err != nil {
		if framework.PoweredOff(ctx, p.reporter) {
			return now, notInjected(p.target, "node %s is powered off", p.target.Node), nil
		}
		return now, nil, fmt.Errorf("failed to ask for the process of %s before the fault: %w", p.target.String(), err)
	}
	switch {
	case now.Ended():
		return now, notInjected(p.target, "%s was not running", p.target.String()), nil
	case now.Held: // it is being stopped
		return now, notInjected(p.target, "%s is already held down", p.target.String()), nil
	}
	return now, nil, nil
}

// stopped reports whether a process was suspended by a signal.
func stopped(p framework.Process) bool { return strings.HasPrefix(p.State, "T") }

func same(a, b framework.Process) bool { return a.PID == b.PID && a.StartTicks == b.StartTicks }

// shows returns a look at the component's process.
func (p process) shows(l func(now framework.Process) (held bool, seen string)) look {
	return func(ctx context.Context) (bool, string) {
		now, err := p.reporter.Process(ctx, p.target.Component)
		if err != nil {
			return false, fmt.Sprintf("failed to read the state of %s: %v", p.target.String(), err)
		}
		return l(now)
	}
}

// runs checks whether the component runs, is not frozen and answers.
func (p process) runs(ctx context.Context) (bool, string) {
	now, err := p.reporter.Process(ctx, p.target.Component)
	switch {
	case err != nil:
		return false, fmt.Sprintf("failed to read the state of %s: %v", p.target.String(), err)
	case now.Ended():
		return false, p.target.String() + " does not run"
	case stopped(now):
		return false, fmt.Sprintf("%s, %s, is in state %s", p.target.String(), now.ID(), now.State)
	}
	seen := fmt.Sprintf("%s runs as %s", p.target.String(), now.ID())
	var answer look
	if answer, err = componentAnswers(p.cluster, p.target.Node, p.target.Component); err != nil {
		return false, seen + ", but " + err.Error()
	} else if answer == nil {
		return true, seen
	}
	held, said := answer(ctx)
	return held, seen + " and " + said
}

// agentAnswers returns a function that checks whether a node's process watcher answers.
func agentAnswers(c framework.Cluster, name string) (look, error) {
	n, err := nodeNamed(c, name, "agent/"+name)
	if err != nil {
		return nil, err
	}
	reporter, ok := n.(framework.ProcessReporter)
	if !ok || len(n.Components()) == 0 {
		return nil, errors.New("it has no component whose process it reports")
	}
	first := n.Components()[0]
	return func(ctx context.Context) (bool, string) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		if _, err := reporter.Process(ctx, first); err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprintf("reports the state of %s", first)
	}, nil
}

// outlives checks whether the same process has been seen to run for d.
func (p process) outlives(d time.Duration) look {
	var first framework.Process
	var since time.Time
	return p.shows(func(now framework.Process) (bool, string) {
		switch {
		case now.Ended():
			return false, p.target.String() + " does not run"
		case !same(now, first):
			first, since = now, time.Now()
		}
		return time.Since(since) > d, fmt.Sprintf("%s has been the same for %s", now.ID(), time.Since(since).Round(time.Millisecond))
	})
}

// standsBy returns the node that runs a component while a process of it is down on purpose, since it
// may run only where a lock is held; empty if it should run.
func standsBy(ctx context.Context, c framework.Cluster, now framework.Process) (active string) {
	if !now.Ended() || !now.Standby || now.Held || now.CrashLooped {
		return ""
	}
	for _, n := range framework.NodesWith(c, now.Component) {
		reporter, ok := n.(framework.ProcessReporter)
		if !ok {
			continue
		}
		if other, err := reporter.Process(ctx, now.Component); err == nil && !other.Ended() {
			return n.Name()
		}
	}
	return ""
}

// orStandsBy checks whether l holds, or whether the component stands by, as it does once another
// node has taken its lock.
func (p process) orStandsBy(l look) look {
	return func(ctx context.Context) (bool, string) {
		held, seen := l(ctx)
		if held {
			return true, seen
		}
		now, err := p.reporter.Process(ctx, p.target.Component)
		if err != nil {
			return false, seen
		}
		active := standsBy(ctx, p.cluster, now)
		if active == "" {
			return false, seen
		}
		return true, fmt.Sprintf("%s stands by: its lock has been taken on %s, where it runs", p.target.String(), active)
	}
}

// orAway checks whether l holds, whether the component stands by, or whether another fault has cut
// the power of the node: then nothing is left of this fault.
func (p process) orAway(l look) look {
	l = p.orStandsBy(l)
	return func(ctx context.Context) (bool, string) {
		held, seen := l(ctx)
		if held || !framework.PoweredOff(ctx, p.reporter) {
			return held, seen
		}
		return true, fmt.Sprintf("node %s is powered off by another fault", p.target.Node)
	}
}

// orHeld checks whether l holds, or whether another fault keeps the component down: then nothing
// is left of this fault, and the other fault heals the rest.
func (p process) orHeld(l look) look {
	return p.orAway(func(ctx context.Context) (bool, string) {
		held, seen := l(ctx)
		if held {
			return true, seen
		}
		now, err := p.reporter.Process(ctx, p.target.Component)
		if err != nil || !now.Ended() || !now.Held {
			return false, seen
		}
		return true, p.target.String() + " exited and is held down by another fault"
	})
}
