package fault

import (
	"context"

	"github.com/holdfast-ha/holdfast/framework"
)

// Stop ends a component gracefully (SIGTERM, and SIGKILL where it still runs 30 s later, as the kubelet does).
var Stop Fault = stop{}

type stop struct{}

func (stop) Name() string { return "stop" }

func (stop) Doc() Doc {
	return Doc{
		Summary: "ends a component gracefully (SIGTERM, and SIGKILL where it still runs 30 s later, as the kubelet does)",
		Targets: processTargets(),
		Params:  map[string]string{"restart": restartDoc},
		Needs:   []string{"Stopper", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "apiserver/2",
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
