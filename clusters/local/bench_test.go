package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// cpuTime returns the processor time of every process in the sandbox so far, including their
// exited children.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	var ticks uint64
	for _, f := range stats {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
			n, _ := strconv.ParseUint(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * procfs.ClockTick
}

// memory returns the proportional set size of every process in the sandbox but
// this one, in MiB: shared pages count once.
func memory(b *testing.B) float64 {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	kib := 0
	for _, f := range files {
		if strings.HasPrefix(f, "/proc/1/") {
			continue
		}
		text, _ := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, _ := strconv.Atoi(strings.Fields(rest)[0])
				kib += n
			}
		}
	}
	return float64(kib) / 1024
}

// BenchmarkCreate measures the way from nothing to a ready cluster: s/ready is
// the wall time, floor-ratio that time over the processor time it took divided
// by the number of cores (1 would be perfect), MiB the proportional set size
// and idle-% the processor time of one core that it takes without traffic.
func BenchmarkCreate(b *testing.B) {
	for _, nodes := range []int{1, 3, 5, 7} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			var wall, cpu, idle time.Duration
			var mib float64
			for b.Loop() {
				before, began := cpuTime(b), time.Now()
				c := newCluster(b, func(s *clusters.Cluster) { s.SetNodes(nodes) })
				wall += time.Since(began)
				cpu += cpuTime(b) - before
				b.StopTimer()
				mib = max(mib, memory(b))
				time.Sleep(5 * time.Second) // controllers finish their first round
				quiet := cpuTime(b)
				time.Sleep(10 * time.Second)
				idle += cpuTime(b) - quiet
				if err := c.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			n := float64(b.N)
			floor := cpu / time.Duration(runtime.NumCPU())
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(wall.Seconds()/n, "s/ready")
			b.ReportMetric(cpu.Seconds()/n, "cpu-s/ready")
			b.ReportMetric(float64(wall)/float64(floor), "floor-ratio")
			b.ReportMetric(mib, "MiB")
			b.ReportMetric(idle.Seconds()/n/10*100, "idle-%")
		})
	}
}
