package local

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkAdministration measures, for faults that are asked of etcd and of
// the API, the time from the call to the proof of the effect and from the call
// to heal to the proof of that.
func BenchmarkAdministration(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	for _, f := range []struct {
		fault  fault.Fault
		target string
	}{
		{fault.Alarm, "etcd/leader"},
		{fault.Compact, "etcd/leader"},
		{fault.Defragment, "etcd/leader"},
		{fault.LeaseDelete, "kcm/1"},
		{fault.DNSWrong, "node/1"},
		{fault.LeaseSteal, "scheduler/1"},
	} {
		b.Run(f.fault.Name(), func(b *testing.B) {
			const samples = 20
			var took, healed []time.Duration
			for range samples {
				// Something must have happened since the last compaction.
				if !etcdTakes(b, c, "node-1") {
					b.Fatal("etcd takes no write")
				}
				on, err := fault.Resolve(b.Context(), c, f.target)
				if err != nil {
					b.Fatal(err)
				}
				in, err := f.fault.Inject(b.Context(), c, on, fault.Params{TTL: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				if !in.Proof().Proven {
					b.Fatal(in.Proof().What)
				}
				took = append(took, in.Proof().Effect.Sub(in.Proof().Called))
				p, err := in.Heal(b.Context())
				if err != nil || !p.Proven {
					b.Fatal(p.What, err)
				}
				healed = append(healed, p.Effect.Sub(p.Called))
			}
			b.ReportMetric(0, "ns/op")
			for unit, all := range map[string][]time.Duration{"inject": took, "heal": healed} {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-"+unit+"-µs")
				b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-"+unit+"-µs")
			}
		})
	}
}
