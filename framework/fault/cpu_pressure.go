package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// CPUPressure makes processor time scarce on a node, or on all nodes of a zone.
var CPUPressure Fault = cpuPressure{}

type cpuPressure struct{}

// workersHigh is the highest number of busy loops on a node.
const workersHigh = 1024

// cpuShown is the processor time that shows that the load process is busy: far
// more than one takes that only starts.
const cpuShown = 300 * time.Millisecond

func (cpuPressure) Name() string { return "cpu-pressure" }

func (cpuPressure) Doc() Doc {
	return Doc{
		Summary: "takes processor time from a node, from all nodes of a zone, or from the machine of a component, by a load process of busy loops at normal priority; " +
			"where nodes share processors, as those of the local provider do, the others feel it too",
		Targets: pressedTargets(),
		Params:  map[string]string{"workers": fmt.Sprintf("the number of busy loops on each node: a whole number from 1 to %d; default as many as the node has processors", workersHigh)},
		Needs:   []string{"Presser", "HostPresser (balancer, kwok, workers)"},
		Example: "node/2 workers=4",
	}
}

func (f cpuPressure) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.workers(c, t, p)
	return err
}

func (f cpuPressure) workers(c framework.Cluster, t Target, p Params) (int, error) {
	if err := checkParams(f, p); err != nil {
		return 0, err
	}
	if _, err := burdens(f, c, t); err != nil {
		return 0, err
	}
	return intParam(f, p, "workers", framework.EveryProcessor, 1, workersHigh)
}

func (f cpuPressure) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	workers, err := f.workers(c, t, p)
	if err != nil {
		return nil, err
	}
	return press(ctx, f, c, t, framework.Pressure{Loops: workers}, p.TTL, func(b *burden) look {
		began := time.Now()
		return func(ctx context.Context) (bool, string) {
			now, absent := b.load(ctx)
			if absent != "" {
				return false, absent
			}
			return now.CPUTime >= cpuShown, fmt.Sprintf("load process %d on %s has taken %s of processor time in %s (no cgroup is used)",
				now.PID, b.name, now.CPUTime, time.Since(began).Round(time.Millisecond))
		}
	})
}
