package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	create = record.OpCreate
	update = record.OpUpdate
	remove = record.OpDelete
)

// over is a compare-and-swap: the last operation names the version it replaces.
func (s *story) over(rev int) *story { s.last().Expect = fmt.Sprint(rev); return s }

func TestLinearizable(t *testing.T) {
	one := func() *story { return newStory().write(create, "a", "k", "v1", 1, 1, 2) }
	for _, tt := range []struct {
		name  string
		story *story
		want  Verdict
		says  string
	}{
		{"read what was written", one().read("b", "k", "v1", 1, 3, 4), Pass, "1 acknowledged writes and 1 quorum reads on 1 keys"},
		{"stale read", one().write(update, "a", "k", "v2", 2, 3, 4).over(1).read("b", "k", "v1", 1, 5, 6), Fail,
			`that of k is not. c-b's get through b returning "v1", called at 5.000s, succeeded although c-a's update through a of "v2" replacing version 1 had been acknowledged at 4.000s`},
		{"read of the past while a write is under way", one().write(update, "a", "k", "v2", 2, 3, 6).over(1).read("b", "k", "v1", 1, 5, 5.5), Pass, ""},
		{"reads go back while a write is under way", one().write(update, "a", "k", "v2", 2, 3, 9).over(1).
			read("b", "k", "v2", 2, 4, 5).read("b", "k", "v1", 1, 6, 7), Fail, `c-b's get through b returning "v1"`},
		{"acknowledged write lost", one().read("b", "k", "", 0, 50, 51), Fail, "get through b returning nothing"},
		{"acknowledged update lost", one().write(update, "a", "k", "v2", 2, 3, 4).over(1).read("b", "k", "v1", 1, 50, 51), Fail, `returning "v1"`},
		{"two winners over one version", one().read("b", "k", "v1", 1, 2.5, 2.6).
			write(update, "a", "k", "v2", 2, 3, 4).over(1).write(update, "b", "k", "v3", 3, 3, 5).over(1), Fail,
			`c-b's update through b of "v3" replacing version 1, called at 3.000s, succeeded next to c-a's update through a of "v2" replacing version 1`},
		{"one winner, one refused", one().read("b", "k", "v1", 1, 2.5, 2.6).
			write(update, "a", "k", "v2", 2, 3, 4).over(1).write(update, "b", "k", "v3", 0, 3, 5).over(1).outcome(record.Refused), Pass, ""},
		{"a patch needs the key, whatever its version", one().write(record.OpPatch, "a", "k", "v2", 2, 3, 4).read("b", "k", "v2", 2, 5, 6), Pass, ""},
		{"patch of nothing", newStory().read("b", "k", "", 0, 0.1, 0.2).write(record.OpPatch, "a", "k", "v1", 1, 1, 2), Fail, "patch through a of"},
		{"patch lost", one().write(record.OpPatch, "a", "k", "v2", 2, 3, 4).read("b", "k", "v1", 1, 5, 6), Fail, "patch through a of"},
		{"two creates", one().write(create, "b", "k", "v9", 9, 3, 4).read("b", "k", "v9", 9, 5, 6), Fail, `create through b of "v9"`},
		{"value out of nowhere", one().read("b", "k", "v7", 7, 3, 4), Fail, `returning "v7"`},
		{"value from before the record", newStory().read("b", "k", "v0", 5, 1, 2).write(update, "a", "k", "v1", 6, 3, 4).over(5), Pass, ""},
		{"value from before the record, after a write", newStory().write(update, "a", "k", "v1", 6, 1, 2).over(5).read("b", "k", "v0", 5, 3, 4), Fail, ""},
		{"value from the future", newStory().read("b", "k", "v1", 1, 0.1, 0.2).write(create, "a", "k", "v1", 1, 1, 2), Fail, ""},
		{"right value, wrong version", one().read("b", "k", "v1", 9, 3, 4), Fail, ""},

		{"unknown write seen later", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			read("b", "k", "v1", 1, 5, 6).read("b", "k", "v2", 2, 7, 8), Pass, ""},
		{"unknown write seen and gone again", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			read("b", "k", "v2", 2, 5, 6).read("b", "k", "v1", 1, 7, 8), Fail, ""},
		{"unknown write over a replaced version", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			write(update, "b", "k", "v3", 3, 5, 6).over(1).read("b", "k", "v2", 4, 7, 8), Fail, ""},
		{"unknown create, then deleted", newStory().write(create, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown).
			write(remove, "b", "k", "", 0, 3, 4).read("b", "k", "", 0, 5, 6), Pass, ""},
		{"absent, unknown create, then deleted", newStory().read("b", "k", "", 0, 0.1, 0.2).write(create, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown).
			write(remove, "b", "k", "", 0, 3, 4), Pass, ""},
		{"absent, then deleted", newStory().read("b", "k", "", 0, 0.1, 0.2).write(remove, "b", "k", "", 0, 3, 4), Fail, "delete through b"},
		{"unseen unknown write, known by its version", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			write(update, "b", "k", "v3", 3, 5, 6).over(2).read("b", "k", "v3", 3, 7, 8), Pass, ""},
		{"unknown delete took effect", one().write(remove, "a", "k", "", 0, 3, 4).outcome(record.Unknown).
			read("b", "k", "v1", 1, 5, 6).read("b", "k", "", 0, 7, 8), Pass, ""},
		{"unknown delete cannot undo two creates", one().write(remove, "a", "k", "", 0, 3, 4).outcome(record.Unknown).
			read("b", "k", "", 0, 5, 6).read("b", "k", "v1", 1, 7, 8), Fail, ""},
		{"deleted and created anew", one().write(remove, "a", "k", "", 0, 3, 4).write(create, "b", "k", "v2", 3, 5, 6).read("a", "k", "v2", 3, 7, 8), Pass, ""},
		{"unknown reads say nothing", one().read("b", "k", "v9", 0, 3, 4).outcome(record.Unknown).read("b", "k", "v1", 1, 5, 6), Pass, ""},
		{"reads that may be old say nothing", func() *story {
			s := one().read("b", "k", "v1", 1, 2.1, 2.2).write(update, "a", "k", "v2", 2, 3, 4).over(1).read("b", "k", "v1", 1, 5, 6)
			s.last().Consistency = "any"
			return s
		}(), Pass, ""},
		{"etcd's own keys are apart", func() *story {
			s := one().read("b", "k", "v1", 1, 2.1, 2.2).read("b", "k", "", 0, 5, 6)
			s.last().API = "etcd"
			return s
		}(), Pass, ""},
		{"checks' own operations count", one().read("b", "k", "", 0, 5, 6).purpose("cross-read"), Fail, ""},
		{"keys are apart", one().read("b", "k", "v1", 1, 3, 4).write(create, "a", "k2", "w", 2, 3, 4).read("b", "k2", "", 0, 5, 6), Fail, "that of k2 is not"},
		{"no traffic", newStory(), NotApplicable, "The record has no reads and writes of single keys"},
		{"nothing answered", newStory().write(create, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown), Inconclusive, "too little traffic: 0 writes and 0 quorum reads"},
		{"read by lists alone", one().change(func(r *record.Run) { r.Ops[0].V.Collection = "c" }).list("l", "1", 3, 4, [3]string{"k", "v1", "1"}), Pass, ""},
		{"no reads", one(), Inconclusive, "too little traffic: 1 writes and 0 quorum reads"},
		{"time runs backwards", one().read("b", "k", "v1", 1, 4, 3), Inconclusive, "returns before its call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := named("linearizable").Judge(&facts.Case{Run: tt.story.run})
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
				t.Errorf("%s (want %s): %s\nwant %s", f.Verdict, tt.want, f.Sentence, tt.says)
			}
			t.Log(f.Sentence)
		})
	}
}

// busy is a history of clients that update one key concurrently, each write
// under way for as long as the others.
func busy(clients, rounds int) *story {
	s := newStory().write(create, "a", "k", "v0", 1, 0, 0.5)
	for r := range rounds {
		for c := range clients {
			s.write(update, "a", "k", fmt.Sprintf("v-%d-%d", r, c), 0, float64(r+1), float64(r+1)+0.9)
			s.last().Client = fmt.Sprint("c", c)
		}
		s.read("b", "k", fmt.Sprintf("v-%d-%d", r, clients-1), 0, float64(r+1)+0.91, float64(r+1)+0.95)
	}
	return s
}

func TestCheckerOutOfTime(t *testing.T) {
	s := busy(20, 5)
	s.read("b", "k", "v0", 0, 50, 51)
	f := judges.JudgeLinearizable(&facts.Case{Run: s.run}, time.Nanosecond, judges.SearchRoom)
	if f.Verdict != Inconclusive || !strings.Contains(f.Sentence, "ran out of time") {
		t.Fatalf("%s: %s", f.Verdict, f.Sentence)
	}
}

// A long run: many unknown writes must not overwhelm the checker.
func TestManyUnknownWrites(t *testing.T) {
	s := newStory()
	for k := range 10 {
		key := fmt.Sprint("k", k)
		s.write(create, "a", key, "v0", 1, 0, 0.01)
		for i := 1; i <= 200; i++ {
			t := float64(i) * 0.1
			s.write(update, "a", key, fmt.Sprint("v", i), i+1, t, t+0.04).over(i).read("b", key, fmt.Sprint("v", i), i+1, t+0.05, t+0.06)
			s.write(update, "b", key, fmt.Sprint("u", i), 0, t, t+3).over(i).outcome(record.Unknown)
			s.write(remove, "c", key, "", 0, t, t+3).outcome(record.Unknown)
		}
	}
	f := named("linearizable").Judge(&facts.Case{Run: s.run})
	if f.Verdict != Pass {
		t.Fatalf("%s: %s", f.Verdict, f.Sentence)
	}
	s.read("b", "k7", "v3", 4, 30, 31)
	f = named("linearizable").Judge(&facts.Case{Run: s.run})
	if f.Verdict != Fail || !strings.Contains(f.Sentence, "that of k7 is not") {
		t.Fatalf("%s: %s", f.Verdict, f.Sentence)
	}
}

// Leaving out operations that cannot matter must not change the checker's result.
func TestUsefulIsSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	verdicts := map[porcupine.CheckResult]int{}
	for range 20000 {
		ops := randomHistory(rng)
		all := slices.DeleteFunc(slices.Clone(ops), func(op record.Op) bool {
			return op.Outcome == record.Refused && !judges.Evidence(op) || op.Outcome == record.Unknown && op.Type == record.OpGet
		})
		want := porcupine.CheckOperationsTimeout(judges.RegisterModel(), judges.Actions(ops, all), time.Minute)
		got := porcupine.CheckOperationsTimeout(judges.RegisterModel(), judges.Operations(ops), time.Minute)
		if got != want {
			var lines []string
			for _, op := range ops {
				lines = append(lines, text.Describe(op)+" expect "+op.Expect+" revision "+op.Revision)
			}
			t.Fatalf("%s without what is left out, %s with it:\n%s", got, want, strings.Join(lines, "\n"))
		}
		verdicts[got]++
	}
	if verdicts[porcupine.Ok] < 1000 || verdicts[porcupine.Illegal] < 1000 {
		t.Errorf("the histories show too little: %v", verdicts)
	}
}

// randomHistory runs operations on a register in the order of their calls,
// lets some answers be lost and some be wrong, and stretches their times.
func randomHistory(rng *rand.Rand) []record.Op {
	var ops []record.Op
	var state struct {
		present bool
		value   string
		rev     int
	}
	for i := range 3 + rng.IntN(6) {
		op := record.Op{Key: "k", Client: fmt.Sprint("c", i), Outcome: record.OK, Type: []record.OpType{record.OpGet, record.OpGet, create, update, update, record.OpPatch, remove}[rng.IntN(7)]}
		op.Call = record.Nanos(10*i - rng.IntN(15))
		op.Return = record.Nanos(10*i + rng.IntN(15))
		legal := true
		switch op.Type {
		case record.OpGet:
			op.Found, op.Value = state.present, state.value
			if state.present {
				op.Revision = fmt.Sprint(state.rev)
			}
		case create:
			legal = !state.present
		case update:
			legal = state.present
			if rng.IntN(3) > 0 {
				op.Expect = fmt.Sprint(state.rev)
			}
		case record.OpPatch, remove:
			legal = state.present
		}
		if facts.IsWrite(op.Type) {
			if op.Type != remove {
				op.Value, op.Revision = fmt.Sprint("v", i), fmt.Sprint(i+1)
			}
			switch lost := rng.IntN(3) == 0; {
			case !legal && rng.IntN(8) > 0:
				op.Outcome, op.Revision = record.Refused, ""
				op.Refusal = []record.Refusal{"", record.RefusedAbsent, record.RefusedPresent, record.RefusedVersion}[rng.IntN(4)]
			case lost:
				op.Outcome, op.Revision = record.Unknown, ""
			}
			if legal && (op.Outcome == record.OK || rng.IntN(2) == 0) {
				state.present, state.value, state.rev = op.Type != remove, op.Value, i+1
			}
		} else if rng.IntN(10) == 0 && i > 0 {
			op.Found, op.Revision, op.Value = true, "", fmt.Sprint("v", rng.IntN(i))
		}
		ops = append(ops, op)
	}
	return ops
}
