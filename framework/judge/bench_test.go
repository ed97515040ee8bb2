package judge

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// history is about n operations of a closed loop of clients on some keys, of which
// about unknown are writes without an answer.
func history(clients, keys, n, unknown int) *record.Run {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(keys)))
	return live(rng, clients, keys, n, float64(unknown)/float64(n)).run(true)
}

// judged measures a judge's time for each operation and its memory in all.
func judged(b *testing.B, run *record.Run, want Verdict) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if f := judgeLinearizable(&matter{run: run}, linearizeLimit); f.verdict != want {
			b.Fatal(f.sentence)
		}
	}
	unknown := 0
	for _, o := range run.Ops {
		if o.V.Outcome == record.Unknown {
			unknown++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(run.Ops)), "ns/operation")
	b.ReportMetric(float64(unknown), "unknown")
}

// How judging grows with the length of the history; 10,000 operations with 30 of
// unknown outcome on one key are to take 10 s and 1 GB at most, 100,000 on many
// keys 60 s.
func BenchmarkLinearizable(b *testing.B) {
	for _, n := range []int{1000, 3000, 10_000, 30_000, 100_000} {
		b.Run(fmt.Sprintf("keys=1/operations=%d", n), func(b *testing.B) { judged(b, history(8, 1, n, 30), Pass) })
		b.Run(fmt.Sprintf("keys=%d/operations=%d", n/500, n), func(b *testing.B) { judged(b, history(16, n/500, n, n/300), Pass) })
	}
}

// A history that is broken in one place, late: a read of what was replaced long ago.
func BenchmarkNotLinearizable(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("operations=%d", n), func(b *testing.B) {
			run := history(8, 1, n, 30)
			judged(b, stale(run), Fail)
		})
	}
}

// stale lets one of the last reads return what one in the middle did.
func stale(run *record.Run) *record.Run {
	var reads []*record.Op
	for i := range run.Ops {
		if op := &run.Ops[i].V; op.Type == record.OpGet && op.Found && op.Outcome == record.OK {
			reads = append(reads, op)
		}
	}
	old, last := reads[len(reads)/2], reads[len(reads)*9/10]
	last.Value, last.Revision = old.Value, old.Revision
	return run
}

// Side by side with the checker on the same history as it is, each in one go of at
// most 20 s. The ratio is that of the times; where the checker found no verdict in
// its time, the ratio is at least that.
func BenchmarkAgainstPlainChecker(b *testing.B) {
	for _, c := range []struct{ keys, n, unknown int }{{1, 300, 3}, {1, 1000, 3}, {1, 1000, 10}, {1, 1000, 30}, {1, 10_000, 30}, {20, 10_000, 30}} {
		b.Run(fmt.Sprintf("keys=%d/operations=%d/unknown=%d", c.keys, c.n, c.unknown), func(b *testing.B) {
			run := history(8, c.keys, c.n, c.unknown)
			var ours, plain time.Duration
			verdict := porcupine.Ok
			for b.Loop() {
				begin := time.Now()
				if f := judgeLinearizable(&matter{run: run}, linearizeLimit); f.verdict != Pass {
					b.Fatal(f.sentence)
				}
				ours += time.Since(begin)
				begin = time.Now()
				verdict = plainRun(run)
				plain += time.Since(begin)
			}
			b.ReportMetric(plain.Seconds()/ours.Seconds(), "ratio")
			b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms/prepared")
			b.ReportMetric(float64(plain.Milliseconds())/float64(b.N), "ms/plain")
			if verdict != porcupine.Ok {
				b.Logf("the plain checker came to no verdict: %s", verdict)
			}
		})
	}
}

// plainRun gives the checker every operation that may have had an effect or has an
// answer, with a bound to its memory and time.
func plainRun(run *record.Run) porcupine.CheckResult {
	byKey := map[string][]record.Op{}
	for _, o := range run.Ops {
		if op := o.V; op.Outcome != record.Refused && (op.Outcome == record.OK || isWrite(op.Type)) {
			byKey[op.Key] = append(byKey[op.Key], op)
		}
	}
	s := search{time: newAllowance(20 * time.Second), room: searchRoom}
	result := porcupine.Ok
	for key := range byKey {
		if r := s.check(registerModel(), actions(byKey[key], byKey[key])); r != porcupine.Ok {
			result = r
		}
		runtime.GC() // what one key took shall not count for the next
	}
	return result
}
