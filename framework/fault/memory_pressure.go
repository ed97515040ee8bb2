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
)

func (memoryPressure) Name() string { return "memory-pressure" }

func (memoryPressure) Doc() Doc {
	return Doc{
		Summary: "takes memory from a node, from all nodes of a zone, or from the machine of a component, by a load process that keeps its pages resident; " +
			"it is the first that the kernel ends when memory runs out",
		Targets: pressedTargets(),
		Params: map[string]string{"size": fmt.Sprintf("the memory taken on each node: a size from %s to %s, at most half of what is available; default %s",
			quantity(sizeLow), quantity(sizeHigh), quantity(sizeUnset))},
		Needs:   []string{"Presser", "HostPresser (balancer, kwok, workers)"},
		Example: "node/2 size=512Mi",
	}
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

func (f memoryPressure) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.size(c, t, p)
	return err
}

func (f memoryPressure) size(c framework.Cluster, t Target, p Params) (int64, error) {
	if err := checkParams(f, p); err != nil {
		return 0, err
	}
	if _, err := burdens(f, c, t); err != nil {
		return 0, err
	}
	return sizeParam(f, p, "size", sizeUnset, sizeLow, sizeHigh)
}

func (f memoryPressure) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	size, err := f.size(c, t, p)
	if err != nil {
		return nil, err
	}
	return press(ctx, f, c, t, framework.Pressure{Memory: size}, p.TTL, func(b *burden) look {
		return func(ctx context.Context) (bool, string) {
			now, absent := b.load(ctx)
			if absent != "" {
				return false, absent
			}
			return now.Anonymous >= size, fmt.Sprintf("load process %d on %s keeps %s of %s resident (no cgroup is used; oom_score_adj %d)",
				now.PID, b.name, quantity(now.Anonymous), quantity(size), now.OOMScoreAdj)
		}
	})
}
