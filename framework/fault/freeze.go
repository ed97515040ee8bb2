package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Freeze suspends a component (SIGSTOP).
var Freeze = &Fault{
	Name:    "freeze",
	Summary: "suspends a component (SIGSTOP): its connections stay open and nothing answers on them",
	Targets: processTargets,
	Needs:   []string{"Freezer", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "kcm/active",
	Effects: does(record.EffectFrozen),
	Prepare: func(r Request) (Inject, error) {
		freezer, err := onTarget[framework.Freezer](r)
		if err != nil {
			return nil, err
		}
		proc, err := r.process()
		return func(ctx context.Context) (Injection, error) { return proc.freeze(ctx, freezer, r.TTL) }, err
	},
}

func (p process) freeze(ctx context.Context, freezer framework.Freezer, ttl time.Duration) (Injection, error) {
	t := p.target
	old, none, err := p.before(ctx)
	switch {
	case err != nil || none != nil:
		return none, err
	case stopped(old):
		return notInjected(t, "%s, %s, was already frozen (state %s)", t.String(), old.ID(), old.State), nil
	}
	frozen := p.shows(func(now framework.Process) (bool, string) {
		if !same(now, old) {
			return false, fmt.Sprintf("%s, %s, had exited", t.String(), old.ID())
		}
		return stopped(now), fmt.Sprintf("%s, %s, is in state %s", t.String(), now.ID(), now.State)
	})
	return attempt{
		target: t,
		what:   "freeze of " + t.String(),
		ask:    func(ctx context.Context) error { return freezer.Freeze(ctx, t.Component, ttl) },
		effect: frozen,
		// A process watcher may end the freeze early: the kubelet kills a process whose liveness
		// probe fails.
		lasts:  p.orHeld(frozen),
		undo:   func(ctx context.Context) error { return freezer.Thaw(ctx, t.Component) },
		healed: p.orHeld(p.runs),
	}.oneRequest().injection(ctx)
}
