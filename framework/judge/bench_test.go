package judge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// closedLoop is about n operations of a closed loop of clients on some keys, of which
// about unknown are writes without an answer.
func closedLoop(clients, keys, n, unknown int) *record.Run {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(keys)))
	return live(rng, clients, keys, n, float64(unknown)/float64(n)).run(true)
}

// judged measures a judge's time for each operation and its memory in all.
func judged(b *testing.B, run *record.Run, want Verdict) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if f := judges.JudgeLinearizable(&facts.Case{Run: run}, judges.LinearizeLimit, judges.SearchRoom); f.Verdict != want {
			b.Fatal(f.Sentence)
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
		b.Run(fmt.Sprintf("keys=1/operations=%d", n), func(b *testing.B) { judged(b, closedLoop(8, 1, n, 30), Pass) })
		b.Run(fmt.Sprintf("keys=%d/operations=%d", n/500, n), func(b *testing.B) { judged(b, closedLoop(16, n/500, n, n/300), Pass) })
	}
}

// A history that is broken in one place, late: a read of what was replaced long ago.
func BenchmarkNotLinearizable(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("operations=%d", n), func(b *testing.B) {
			run := closedLoop(8, 1, n, 30)
			judged(b, stale(run), Fail)
		})
	}
}

// The other judges of what clients did, on 100,000 operations of one key and of many.
func BenchmarkClientJudges(b *testing.B) {
	for _, keys := range []int{1, 200} {
		run := closedLoop(16, keys, 100_000, 300)
		for i := range run.Ops[len(run.Ops)-1000:] {
			if op := &run.Ops[len(run.Ops)-1000+i].V; op.Type == record.OpGet && op.Outcome == record.OK {
				op.Purpose, op.Entrance = facts.PurposeFinalRead, "node-1"
			}
		}
		for _, d := range []judges.Definition{named("no-lost-write"), named("one-winner"), named("read-your-writes"), named("monotonic-reads"), named("revision-order")} {
			b.Run(fmt.Sprintf("%s/keys=%d", d.Name, keys), func(b *testing.B) {
				for b.Loop() {
					if f := d.Judge(&facts.Case{Run: run}); f.Verdict != Pass {
						b.Fatal(f.Sentence)
					}
				}
			})
		}
	}
}

// stale makes one of the last reads return the value of one in the middle.
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

// Compared with the checker on the same history, unprepared, with 10 s and the same memory for
// each key. The ratio is that of the times; if the checker came to no verdict (undecided is 1),
// the true ratio is greater.
func BenchmarkAgainstPlainChecker(b *testing.B) {
	for _, c := range []struct {
		keys, n, unknown int
		broken           bool
	}{
		{1, 1000, 3, false}, {1, 1000, 30, false}, {1, 10_000, 30, false}, {1, 100_000, 30, false}, {20, 10_000, 30, false}, {20, 10_000, 1000, false},
		{1, 300, 3, true}, {1, 1000, 3, true}, {1, 1000, 30, true}, {1, 10_000, 30, true},
	} {
		want, kind := Pass, "legal"
		if c.broken {
			want, kind = Fail, "broken"
		}
		b.Run(fmt.Sprintf("%s/keys=%d/operations=%d/unknown=%d", kind, c.keys, c.n, c.unknown), func(b *testing.B) {
			run := closedLoop(8, c.keys, c.n, c.unknown)
			if c.broken {
				stale(run)
			}
			var ours, plain time.Duration
			undecided := 0.0
			for b.Loop() {
				begin := time.Now()
				if f := judges.JudgeLinearizable(&facts.Case{Run: run}, judges.LinearizeLimit, judges.SearchRoom); f.Verdict != want {
					b.Fatal(f.Sentence)
				}
				ours += time.Since(begin)
				begin = time.Now()
				if plainRun(run) == porcupine.Unknown {
					undecided = 1
				}
				plain += time.Since(begin)
			}
			b.ReportMetric(plain.Seconds()/ours.Seconds(), "ratio")
			b.ReportMetric(ours.Seconds()*1000/float64(b.N), "ms-prepared")
			b.ReportMetric(plain.Seconds()*1000/float64(b.N), "ms-plain")
			b.ReportMetric(undecided, "undecided")
		})
	}
}

// plainRun gives the checker every operation that may have had an effect or has an
// answer, with a bound to its memory and time.
func plainRun(run *record.Run) porcupine.CheckResult {
	byKey := map[string][]record.Op{}
	for _, o := range run.Ops {
		if op := o.V; op.Outcome != record.Refused && (op.Outcome == record.OK || facts.IsWrite(op.Type)) {
			byKey[op.Key] = append(byKey[op.Key], op)
		}
	}
	result := porcupine.Ok
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		s := judges.Search{Time: judges.NewAllowance(10 * time.Second), Room: judges.SearchRoom}
		if r := s.Check(judges.RegisterModel(), judges.Actions(byKey[key], byKey[key])); r != porcupine.Ok {
			result = r
		}
	}
	return result
}
