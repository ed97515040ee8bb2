package certify

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A bundle of all MUST rows, with records as big as those of real clusters, has at most 50 MB;
// verifying it takes at most a minute and 1 GB of memory.
func BenchmarkVerify(b *testing.B) {
	key := testKey(b)
	file := newCertificationOf(b, Breaking, 10_000, Must()...).bundle(b, key)
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // reset the peak
			b.Fatal(err)
		}
		began := time.Now()
		v, err := Verify(file, key, nil)
		if err != nil {
			b.Fatal(err)
		}
		if !v.Holds() {
			b.Fatalf("%q", v.Problems[:min(len(v.Problems), 3)])
		}
		if took := time.Since(began); took > time.Minute {
			b.Errorf("verified in %v, want a minute at most", took)
		}
		peak := peakMemory(b)
		if peak > 1e9 || info.Size() > 50e6 {
			b.Errorf("%d MB of memory, bundle of %d MB; want 1 GB and 50 MB at most", peak/1e6, info.Size()/1e6)
		}
		b.ReportMetric(float64(v.Experiments), "experiments")
		b.ReportMetric(float64(info.Size())/1e6, "MB/bundle")
		b.ReportMetric(float64(peak)/1e6, "MB/peak")
	}
}

// peakMemory returns the largest resident memory of this process since the peak was reset.
func peakMemory(t testing.TB) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib * 1024
}
