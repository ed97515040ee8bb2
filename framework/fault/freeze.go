package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// Freeze suspends a component (SIGSTOP).
var Freeze Fault = freeze{}

type freeze struct{}

func (freeze) Name() string { return "freeze" }

func (freeze) Doc() Doc {
	return Doc{
		Summary: "suspends a component (SIGSTOP): its connections stay open and nothing answers on them",
		Targets: processTargets(),
		Needs:   []string{"Freezer", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "kcm/active",
	}
}

func (f freeze) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

func (f freeze) parts(c framework.Cluster, t Target, p Params) (process, framework.Freezer, error) {
	if err := checkParams(f, p); err != nil {
		return process{}, nil, err
	}
	holder, of, err := componentHolder(f, c, t)
	if err != nil {
		return process{}, nil, err
	}
	freezer, err := ability[framework.Freezer](holder, of, "fault freeze")
	if err != nil {
		return process{}, nil, err
	}
	proc, err := newProcess(f, c, t)
	return proc, freezer, err
}

func (f freeze) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	proc, freezer, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	old, absent, err := proc.before(ctx)
	switch {
	case err != nil:
		return nil, err
	case absent != "":
		return notInjected(t, "%s", absent), nil
	case stopped(old):
		return notInjected(t, "%s, %s, was frozen already (state %s)", t.String(), id(old), old.State), nil
	}
	frozen := func(ctx context.Context) (bool, string) {
		now, err := proc.reporter.Process(ctx, t.Component)
		switch {
		case err != nil:
			return false, fmt.Sprintf("%s cannot be asked for: %v", t.String(), err)
		case !same(now, old):
			return false, fmt.Sprintf("%s, %s, ended instead of freezing", t.String(), id(old))
		}
		return stopped(now), fmt.Sprintf("%s, %s, is in state %s", t.String(), id(now), now.State)
	}
	return attempt{
		target: t,
		what:   "freeze of " + t.String(),
		ask:    func(ctx context.Context) error { return freezer.Freeze(ctx, t.Component, p.TTL) },
		effect: frozen,
		undo:   func(ctx context.Context) error { return freezer.Thaw(ctx, t.Component) },
		healed: proc.orHeld(proc.runs),
	}.oneRequest().injection(ctx)
}
