package record

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// recordingLimit is the share of a core that recording may cost, in per cent.
const recordingLimit = 5

// BenchmarkRecording writes what a busy scenario gives, 100 probes and 500
// operations a second, to a file, at that pace. It reports the computing time of
// this process as a share of a core, and the bytes of an entry, for records as they
// are and without compression.
func BenchmarkRecording(b *testing.B) {
	for _, tt := range []struct {
		name  string
		lines func(file) (io.WriteCloser, error)
	}{
		{"compressed", func(f file) (io.WriteCloser, error) { return newPacker(f) }},
		{"plain", func(f file) (io.WriteCloser, error) { return unpacked{f}, nil }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), FileName)
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			lines, err := tt.lines(f)
			if err != nil {
				b.Fatal(err)
			}
			w, err := startWriter(f, lines, path, testMeta())
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			start, used := time.Now(), computing(b)
			for b.Loop() {
				n = appendFor(b, w, 2*time.Second, n)
			}
			if err := w.Close(End{}); err != nil {
				b.Fatal(err)
			}
			share := 100 * float64(computing(b)-used) / float64(time.Since(start))
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op") // it is the pace
			b.ReportMetric(share, "%-of-a-core")
			b.ReportMetric(float64(info.Size())/float64(n), "bytes/entry")
			if share > recordingLimit {
				b.Errorf("recording cost %.1f %% of a core, more than %d %%", share, recordingLimit)
			}
		})
	}
}

// unpacked gives lines to a file as they are.
type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }

// appendFor appends entries for some time: every 10 ms a probe and five operations.
// n is how many there were before; it returns how many there are then.
func appendFor(b *testing.B, w *Writer, d time.Duration, n int) int {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range d / (10 * time.Millisecond) {
		<-tick.C
		now := w.Now()
		if err := w.Append(KindProbe, Probe{Entrance: "balancer", Reused: n%4 < 2, Kind: ProbeKinds()[n%4],
			Start: now - Nanos(n%7*1e6), End: now, OK: true, Status: 200}); err != nil {
			b.Fatal(err)
		}
		for i := range 5 {
			if err := w.Append(KindOp, sampleOp(n+i, now)); err != nil {
				b.Fatal(err)
			}
		}
		n += 6
	}
	return n
}

// sampleOp is one operation of a client on a register.
func sampleOp(i int, now Nanos) Op {
	op := Op{Client: fmt.Sprintf("client-%d", i%8), Entrance: fmt.Sprintf("node-%d", i%3+1), API: "kubernetes", Type: OpUpdate,
		Key: fmt.Sprintf("register-%d", i%20), Collection: "registers", Value: fmt.Sprintf("client-%d/%d", i%8, i),
		Expect: fmt.Sprint(i + 900), Revision: fmt.Sprint(i + 1000), Call: now - Nanos(i%13*777_777), Return: now, Outcome: OK}
	if i%2 == 0 {
		op.Type, op.Expect, op.Found, op.Consistency = OpGet, "", true, "quorum"
	}
	return op
}

// computing is the time that processors worked for this process so far.
func computing(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend is what one entry costs the goroutine that appends it, with
// compression and file behind it.
func BenchmarkAppend(b *testing.B) {
	w, err := Create(b.TempDir(), testMeta())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := w.Append(KindOp, sampleOp(i, w.Now())); err != nil {
			b.Fatal(err)
		}
		i++
	}
	if err := w.Close(End{}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRead reads a record of 10,000 operations.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	w, err := Create(dir, testMeta())
	if err != nil {
		b.Fatal(err)
	}
	const entries = 10000
	for i := range entries {
		if err := w.Append(KindOp, sampleOp(i, w.Now())); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(End{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if run, err := Read(dir); err != nil || len(run.Ops) != entries {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}
