package local

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// BenchmarkTraffic measures what the general traffic of a scenario comes to on a cluster of
// three nodes, by its intensity: ops/s, acknowledged-% of them, cpu-ms/op of everything in
// the sandbox (the traffic, the cluster, and what it takes without traffic), and asked-ratio,
// the operations that were made over those asked for, by the rate at
// intensity 1. A ratio that falls well below 1 is more than the machine can bear.
func BenchmarkTraffic(b *testing.B) {
	c := newCluster(b, nil)
	const length = 10 * time.Second
	first := 0.0
	for _, intensity := range []int{1, 3, 10} {
		b.Run(fmt.Sprintf("intensity=%d", intensity), func(b *testing.B) {
			var made, acknowledged int
			var cpu time.Duration
			for b.Loop() {
				dir := b.TempDir()
				w, err := record.Create(dir, record.Meta{Run: "bench", Started: time.Now()})
				if err != nil {
					b.Fatal(err)
				}
				before := cpuTime(b)
				t, err := workload.Start(b.Context(), workload.Config{Cluster: c, Seed: 1, Settings: workload.Settings{Intensity: intensity}}, w)
				if err != nil {
					b.Fatal(err)
				}
				time.Sleep(length)
				cpu += cpuTime(b) - before
				until := w.Now()
				b.StopTimer()
				t.Stop()
				if err := w.Close(record.End{}); err != nil {
					b.Fatal(err)
				}
				run, err := record.Read(dir)
				if err != nil {
					b.Fatal(err)
				}
				for _, o := range run.Ops {
					if o.V.Return < until {
						made++
						if o.V.Outcome == record.OK {
							acknowledged++
						}
					}
				}
				_ = os.RemoveAll(dir)
				b.StartTimer()
			}
			rate := float64(made) / (float64(b.N) * length.Seconds())
			if intensity == 1 {
				first = rate
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate, "ops/s")
			b.ReportMetric(float64(acknowledged)/float64(made)*100, "acknowledged-%")
			b.ReportMetric(cpu.Seconds()*1000/float64(made), "cpu-ms/op")
			if first > 0 {
				b.ReportMetric(rate/(first*float64(intensity)), "asked-ratio")
			}
		})
	}
}
