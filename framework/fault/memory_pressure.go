package fault

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-ha/holdfast/framework"
)

// MemoryPressure makes memory scarce on a node, or on all nodes of a zone.
var MemoryPressure Fault = memoryPressure{}

type memoryPressure struct{}

const (
	sizeUnset = 256 << 20
	sizeLow   = 64 << 20 // well above what an idle load process takes
	sizeHigh  = 1 << 40
	limitLow  = 16 << 20
	// beyondLimit is how much more than the limit the probe wants.
	beyondLimit = 32 << 20
)

func (memoryPressure) Name() string { return "memory-pressure" }

func (memoryPressure) Doc() Doc {
	return Doc{
		Summary: "makes memory scarce for a component, for a node, or for all nodes of a zone, by a limit of its control group on what it takes from then on, the page cache of its files included " +
			"(control groups of version 2 slow it down beyond the limit; those of version 1 can only end it, which oom=true asks for); or by a load process on the machine that keeps its pages resident " +
			"and is the first that the kernel ends when memory runs out",
		Targets: pressedTargets(),
		Params: map[string]string{
			"by": byDoc,
			"limit": fmt.Sprintf("by=cgroup: the memory that the target may take from then on, all its processes together, and one that starts later from its start: a size from %s to %s; default %s",
				quantity(limitLow), quantity(sizeHigh), quantity(sizeUnset)),
			"oom": "by=cgroup: true: the kernel ends a process of the target that goes beyond the limit, and ends one that needs more at its start again and again; false (default): it slows them down",
			"size": fmt.Sprintf("by=load: the memory taken on each node: a size from %s to %s, at most half of what is available; default %s",
				quantity(sizeLow), quantity(sizeHigh), quantity(sizeUnset)),
		},
		Needs:   []string{"Presser", "HostPresser (balancer, kwok, workers)", "Limiter (by=cgroup)"},
		Example: "node/2 size=512Mi",
	}
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

func (f memoryPressure) Check(c framework.Cluster, t Target, p Params) error {
	_, _, _, err := f.parts(c, t, p)
	return err
}

func (f memoryPressure) parts(c framework.Cluster, t Target, p Params) (size int64, limit framework.Limit, w way, err error) {
	if err = checkParams(f, p); err != nil {
		return
	}
	if _, err = burdens(f, c, t); err != nil {
		return
	}
	if size, err = sizeParam(f, p, "size", sizeUnset, sizeLow, sizeHigh); err != nil {
		return
	}
	if limit.Memory, err = sizeParam(f, p, "limit", sizeUnset, limitLow, sizeHigh); err != nil {
		return
	}
	if limit.Hard, err = boolParam(f, p, "oom"); err != nil {
		return
	}
	w, err = chooseWay(f, c, t, p, limit, []string{"limit", "oom"}, []string{"size"})
	return
}

func (f memoryPressure) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	size, limit, w, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	if w.by == byCgroup {
		return w.inject(ctx, f, c, t, limit, framework.Pressure{Memory: limit.Memory + beyondLimit}, p.TTL)
	}
	return chosen(byLoad)(press(ctx, f, c, t, framework.Pressure{Memory: size}, p.TTL, func(b *burden) look {
		return func(ctx context.Context) (bool, string) {
			now, absent := b.load(ctx)
			if absent != "" {
				return false, absent
			}
			return now.Anonymous >= size, fmt.Sprintf("load process %d on %s keeps %s of %s resident (oom_score_adj %d)%s",
				now.PID, b.name, quantity(now.Anonymous), quantity(size), now.OOMScoreAdj, w.noCgroup())
		}
	}))
}
