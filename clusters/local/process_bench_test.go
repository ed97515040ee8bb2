package local

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// latencies are what one fault took, call by call.
type latencies []time.Duration

func (l *latencies) add(p fault.Proof) { *l = append(*l, p.Effect.Sub(p.Called)) }

func (l latencies) report(b *testing.B, what string) {
	slices.Sort(l)
	for name, share := range map[string]int{"p50": 50, "p99": 99} {
		b.ReportMetric(float64(l[len(l)*share/100].Microseconds()), what+"-"+name+"-µs")
	}
}

// BenchmarkProcessFaults measures, for each fault on processes and machines, the
// time from the call to the proof of its effect and from the call of healing to
// the proof of that. A graceful end takes what the component takes for it, a
// restart and a reboot what a start takes, and pressure is proven by what it has
// consumed. Components are healed when they answer, nodes when they serve.
func BenchmarkProcessFaults(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	for _, f := range []struct {
		fault   fault.Fault
		target  string
		params  map[string]string
		samples int
	}{
		{fault.Kill, "scheduler/2", nil, 30},
		{fault.Stop, "scheduler/2", nil, 30},
		{fault.Freeze, "scheduler/2", nil, 30},
		{fault.Restart, "scheduler/2", nil, 30},
		{fault.Restart, "scheduler/2", map[string]string{"signal": "KILL"}, 30},
		{fault.CrashLoop, "scheduler/2", map[string]string{"after": "0s"}, 10},
		{fault.Kill, "balancer", nil, 30},
		{fault.Freeze, "balancer", nil, 30},
		{fault.Kill, "agent/2", nil, 30},
		{fault.Freeze, "agent/2", nil, 30},
		{fault.Restart, "agent/2", nil, 30},
		{fault.CPUPressure, "node/2", map[string]string{"workers": "1"}, 10},
		{fault.MemoryPressure, "node/2", nil, 10},
		{fault.PowerOff, "node/2", nil, 5},
		{fault.Reboot, "node/2", map[string]string{"off": "10ms"}, 5},
	} {
		name := []string{f.fault.Name(), strings.ReplaceAll(f.target, "/", "-")}
		for k, v := range f.params {
			name = append(name, k+"-"+v)
		}
		b.Run(strings.Join(name, "-"), func(b *testing.B) {
			target, err := fault.Resolve(b.Context(), c, f.target)
			if err != nil {
				b.Fatal(err)
			}
			var injected, healed latencies
			for range f.samples { // a fixed number: healing can take seconds
				in, err := f.fault.Inject(b.Context(), c, target, fault.Params{TTL: time.Hour, Values: f.params})
				if err != nil {
					b.Fatal(err)
				}
				p := in.Proof()
				if !p.Proven {
					b.Fatal(p.What)
				}
				injected.add(p)
				if p, err = in.Heal(b.Context()); err != nil || !p.Proven {
					b.Fatal(p.What, err)
				}
				healed.add(p)
			}
			b.ReportMetric(0, "ns/op")
			injected.report(b, "inject")
			healed.report(b, "heal")
		})
	}
}
