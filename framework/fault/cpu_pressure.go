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

// A quota is in percent of one processor, over the kernel's usual period.
const (
	quotaUnset  = 20
	quotaHigh   = 100 * workersHigh
	quotaPeriod = 100 * time.Millisecond
)

// cpuShown is the processor time that shows that the load process is busy: far
// more than one takes that only starts.
const cpuShown = 300 * time.Millisecond

func (cpuPressure) Name() string { return "cpu-pressure" }

func (cpuPressure) Doc() Doc {
	return Doc{
		Summary: "makes processor time scarce for a component, for a node, or for all nodes of a zone, by a quota of its control group, which no other feels; or, where there are none, " +
			"by a load process of busy loops at normal priority on the machine, which others that share its processors feel too, as all nodes of the local provider do",
		Targets: pressedTargets(),
		Params: map[string]string{
			"by":      byDoc,
			"quota":   fmt.Sprintf("by=cgroup: the processor time that the target gets, all its processes together, in percent of one processor over %s: a whole number from 1 to %d, and proven only if that is less than the machine can give it; default %d", quotaPeriod, quotaHigh, quotaUnset),
			"workers": fmt.Sprintf("by=load: the number of busy loops on each node: a whole number from 1 to %d; default as many as the node has processors", workersHigh),
		},
		Needs:   []string{"Presser", "HostPresser (balancer, kwok, workers)", "Limiter (by=cgroup)"},
		Example: "node/2 quota=50 workers=4",
	}
}

func (f cpuPressure) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

// cpuParts are what the parameters of a cpuPressure say.
type cpuParts struct{ workers, quota int }

func (f cpuPressure) parts(c framework.Cluster, t Target, p Params) (parts cpuParts, w way, err error) {
	if err = checkParams(f, p); err != nil {
		return
	}
	if _, err = burdens(f, c, t); err != nil {
		return
	}
	if parts.workers, err = intParam(f, p, "workers", framework.EveryProcessor, 1, workersHigh); err != nil {
		return
	}
	if parts.quota, err = intParam(f, p, "quota", quotaUnset, 1, quotaHigh); err != nil {
		return
	}
	w, err = chooseWay(f, c, t, p, framework.Limit{CPU: float64(parts.quota)}, []string{"quota"}, []string{"workers"})
	return
}

func (f cpuPressure) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	parts, w, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	if w.by == byCgroup {
		// So many loops want more than the quota, whatever the target wants.
		probe := framework.Pressure{Loops: min(parts.quota/100+1, workersHigh)}
		return w.inject(ctx, f, c, t, framework.Limit{CPU: float64(parts.quota)}, probe, p.TTL)
	}
	return chosen(byLoad)(press(ctx, f, c, t, framework.Pressure{Loops: parts.workers}, p.TTL, func(b *burden) look {
		began := time.Now()
		return func(ctx context.Context) (bool, string) {
			now, absent := b.load(ctx)
			if absent != "" {
				return false, absent
			}
			return now.CPUTime >= cpuShown, fmt.Sprintf("load process %d on %s has taken %s of processor time in %s%s",
				now.PID, b.name, now.CPUTime, time.Since(began).Round(time.Millisecond), w.noCgroup())
		}
	}))
}
