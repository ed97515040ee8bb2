package local

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkTrustAndTime measures the time from the call of a fault of
// certificates or clocks to the proof of its effect, and from the call of its
// healing to the proof of that. No process may end of it.
func BenchmarkTrustAndTime(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	node := fault.Target{Node: "node-3"}
	apiServer := fault.Target{Node: "node-2", Component: framework.APIServer}
	etcd := fault.Target{Node: "node-2", Component: framework.Etcd}
	scheduler := fault.Target{Node: "node-3", Component: framework.Scheduler}
	for _, f := range []struct {
		name   string
		fault  fault.Fault
		target fault.Target
	}{
		{"authority-rotated/apiserver", fault.AuthorityRotated, apiServer},
		{"cert-expired/apiserver", fault.CertExpired, apiServer},
		{"cert-expired/etcd", fault.CertExpired, etcd},
		{"cert-wrong-names/etcd", fault.CertWrongNames, etcd},
		{"clock-jump/scheduler", fault.ClockJump, scheduler},
		{"clock-jump/node", fault.ClockJump, node},
		{"clock-drift/node", fault.ClockDrift, node},
	} {
		b.Run(f.name, func(b *testing.B) {
			before := processIDs(b, c.nodes[1]) + processIDs(b, c.nodes[2])
			const samples = 50
			var injected, healed []time.Duration
			for range samples {
				in, err := f.fault.Inject(b.Context(), c, f.target, fault.Params{TTL: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				p := in.Proof()
				if !p.Proven {
					b.Fatal(p.What)
				}
				injected = append(injected, p.Effect.Sub(p.Called))
				if p, err = in.Heal(b.Context()); err != nil || !p.Proven {
					b.Fatal(p.What, err)
				}
				healed = append(healed, p.Effect.Sub(p.Called))
			}
			if after := processIDs(b, c.nodes[1]) + processIDs(b, c.nodes[2]); after != before {
				b.Errorf("processes were %s, and now are %s", before, after)
			}
			b.ReportMetric(0, "ns/op")
			for name, took := range map[string][]time.Duration{"inject": injected, "heal": healed} {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), name+"-p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), name+"-p99-µs")
			}
		})
	}
}
