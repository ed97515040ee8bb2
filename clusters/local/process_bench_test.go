package local

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkProcessFaults measures, for each fault on processes and machines, the
// time from the call to the proof of its effect and from the call of healing to
// the proof of that. A graceful end takes what the component takes for it, a
// restart and a reboot what a start takes, and pressure is proven by what it has
// consumed. Components are healed when they answer, nodes when they serve.
func BenchmarkProcessFaults(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	for _, f := range []struct {
		fault   *fault.Fault
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
		name := []string{f.fault.Name, strings.ReplaceAll(f.target, "/", "-")}
		for k, v := range f.params {
			name = append(name, k+"-"+v)
		}
		b.Run(strings.Join(name, "-"), func(b *testing.B) { benchFault(b, c, f.fault, f.target, f.params, f.samples) })
	}
}
