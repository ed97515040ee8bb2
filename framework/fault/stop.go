package fault

import (
	"github.com/holdfast-ha/holdfast/framework"
)

// Stop stops a component gracefully (SIGTERM). If it still runs 30 s later, it receives SIGKILL,
// as from the kubelet, which does not prove a graceful exit.
var Stop = &Fault{
	Name:    "stop",
	Summary: "ends a component gracefully (SIGTERM); one that still runs 30 s later gets SIGKILL, as from the kubelet, which does not prove a graceful end",
	Targets: processTargets,
	Params:  []Param{restartParam},
	Needs:   []string{"Stopper", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "kcm/active",
	Effects: ends,
	Prepare: func(r Request) (Inject, error) {
		stopper, err := onTarget[framework.Stopper](r)
		if err != nil {
			return nil, err
		}
		return r.ending(true, stopper.Stop)
	},
}
