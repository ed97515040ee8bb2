package fault

import (
	"context"

	"github.com/holdfast-ha/holdfast/framework"
)

// Stop ends a component gracefully (SIGTERM). One that still runs 30 s later gets SIGKILL, as
// from the kubelet, which does not prove a graceful end.
var Stop Fault = stop{}

type stop struct{}

func (stop) Name() string { return "stop" }

func (stop) Doc() Doc {
	return Doc{
		Summary: "ends a component gracefully (SIGTERM); one that still runs 30 s later gets SIGKILL, as from the kubelet, which does not prove a graceful end",
		Targets: processTargets(),
		Params:  map[string]string{"restart": restartDoc},
		Needs:   []string{"Stopper", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "kcm/active",
	}
}

func (f stop) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.end(c, t, p)
	return err
}

func (f stop) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	e, stopper, err := f.end(c, t, p)
	if err != nil {
		return nil, err
	}
	e.orderly = true
	return e.inject(ctx, stopper.Stop)
}

func (f stop) end(c framework.Cluster, t Target, p Params) (end, framework.Stopper, error) {
	e, holder, of, err := newEnd(f, c, t, p)
	if err != nil {
		return end{}, nil, err
	}
	stopper, err := ability[framework.Stopper](holder, of, "fault stop")
	return e, stopper, err
}
