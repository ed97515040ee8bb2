package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

const (
	sizeUnset = 256 << 20
	sizeLow   = 64 << 20 // well above what an idle load process takes
	sizeHigh  = 1 << 40
	limitLow  = 16 << 20
	// beyondLimit is how much more than the limit the probe wants.
	beyondLimit = 32 << 20
)

// MemoryPressure makes memory scarce on a node, or on all nodes of a zone.
var MemoryPressure = onMachines(&Fault{
	Name: "memory-pressure",
	Summary: "makes memory scarce for a component, for a node, or for all nodes of a zone. by=cgroup limits what it may allocate from then on, the page cache of its files included: " +
		"control groups of version 2 slow it down beyond the limit, those of version 1 can only kill it (oom=true). by=load runs a process on the machine that holds memory, " +
		"and that the kernel kills first when memory runs out",
	Params: []Param{
		sizeParam("limit", "by=cgroup: the memory that all processes of the target together may allocate from then on, those that start later included", sizeUnset, limitLow, sizeHigh),
		boolParam("oom", "by=cgroup: true: the kernel kills a process of the target that goes beyond the limit, and repeatedly kills one that needs more at its start; false: it slows them down", false),
		sizeParam("size", "by=load: the memory to allocate on each node, at most half of what is available", sizeUnset, sizeLow, sizeHigh),
	},
	Example: "node/2 size=512Mi",
}, func(r Request, machines []*burden) (Inject, error) {
	size, limit := Value[int64](r, "size"), framework.Limit{Memory: Value[int64](r, "limit"), Hard: Value[bool](r, "oom")}
	w, err := r.chooseWay(machines, limit, []string{"limit", "oom"}, []string{"size"})
	if w.by == byCgroup {
		return func(ctx context.Context) (Injection, error) {
			return w.inject(ctx, r, limit, framework.Pressure{Memory: limit.Memory + beyondLimit})
		}, err
	}
	return func(ctx context.Context) (Injection, error) {
		return chosen(byLoad)(r.press(ctx, machines, framework.Pressure{Memory: size}, func(b *burden) look {
			return func(ctx context.Context) (bool, string) {
				now, absent := b.load(ctx)
				if absent != "" {
					return false, absent
				}
				return now.Anonymous >= size, fmt.Sprintf("load process %d on %s keeps %s of %s resident (oom_score_adj %d)%s",
					now.PID, b.name, quantity(now.Anonymous), quantity(size), now.OOMScoreAdj, w.noCgroup())
			}
		}))
	}, err
})
