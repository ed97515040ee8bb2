package fault

import (
	"context"

	"github.com/holdfast-ha/holdfast/framework"
)

// Kill ends a component without notice (SIGKILL).
var Kill Fault = kill{}

type kill struct{}

func (kill) Name() string { return "kill" }

func (kill) Doc() Doc {
	return Doc{
		Summary: "ends a component without notice (SIGKILL)",
		Targets: processTargets(),
		Params:  map[string]string{"restart": restartDoc},
		Needs:   []string{"Killer", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "etcd/leader restart=true",
	}
}

func (f kill) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.end(c, t, p)
	return err
}

func (f kill) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	e, killer, err := f.end(c, t, p)
	if err != nil {
		return nil, err
	}
	return e.inject(ctx, killer.Kill)
}

func (f kill) end(c framework.Cluster, t Target, p Params) (end, framework.Killer, error) {
	e, holder, of, err := newEnd(f, c, t, p)
	if err != nil {
		return end{}, nil, err
	}
	killer, err := ability[framework.Killer](holder, of, "fault kill")
	return e, killer, err
}
