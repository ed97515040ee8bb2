package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// workersHigh is the highest number of busy loops on a node.
const workersHigh = 1024

// A quota is in percent of one CPU, over the kernel's usual period.
const (
	quotaUnset  = 20
	quotaHigh   = 100 * workersHigh
	quotaPeriod = 100 * time.Millisecond
)

// cpuShown is the CPU time that shows that the load process is busy: far
// more than one takes that only starts.
const cpuShown = 300 * time.Millisecond

// CPUPressure makes CPU time scarce on a node, or on all nodes of a zone.
var CPUPressure = onMachines(&Fault{
	Name: "cpu-pressure",
	Summary: "makes CPU time scarce for a component, for a node, or for all nodes of a zone, by a CPU quota on its control group, which does not affect other processes; or, without control groups, " +
		"by a load process of busy loops at normal priority on the machine, which also affects other processes that share its CPUs, as all nodes of the local provider do",
	Params: []Param{
		intParam("quota", fmt.Sprintf("by=cgroup: the CPU time for all processes of the target together, in percent of one CPU over %s; the proof requires that this is less than the machine can give them", quotaPeriod), quotaUnset, 1, quotaHigh),
		intParam("workers", "by=load: the number of busy loops on each node", framework.EveryProcessor, 1, workersHigh).unless("one per CPU of the node"),
	},
	Example: "node/2 quota=50 workers=4",
}, func(r Request, machines []*burden) (Inject, error) {
	quota, workers := Value[int](r, "quota"), Value[int](r, "workers")
	limit := framework.Limit{CPU: float64(quota)}
	w, err := r.chooseWay(machines, limit, []string{"quota"}, []string{"workers"})
	if w.by == byCgroup {
		// These loops want more than the quota, whatever the load of the target.
		probe := framework.Pressure{Loops: min(quota/100+1, workersHigh)}
		return func(ctx context.Context) (Injection, error) { return w.inject(ctx, r, limit, probe) }, err
	}
	return func(ctx context.Context) (Injection, error) {
		return chosen(byLoad)(r.press(ctx, machines, framework.Pressure{Loops: workers}, w.busy))
	}, err
})

// busy checks whether a load process uses CPU time.
func (w way) busy(b *burden) look {
	began := time.Now()
	return func(ctx context.Context) (bool, string) {
		now, absent := b.load(ctx)
		if absent != "" {
			return false, absent
		}
		return now.CPUTime >= cpuShown, fmt.Sprintf("load process %d on %s has taken %s of CPU time in %s%s",
			now.PID, b.name, now.CPUTime, time.Since(began).Round(time.Millisecond), w.noCgroup())
	}
}
