package judge

import (
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

// plainly is the checker's result without any preparation.
func plainly(ops []record.Op) porcupine.CheckResult {
	kept := slices.DeleteFunc(slices.Clone(ops), func(op record.Op) bool {
		return op.Outcome == record.Refused && !judges.Evidence(op) || op.Outcome == record.Unknown && op.Type == record.OpGet
	})
	return porcupine.CheckOperationsTimeout(judges.RegisterModel(), judges.Actions(ops, kept), 0)
}

// tried is the result of a trial, and the step that decided it.
func tried(run *record.Run, ops []record.Op) (result porcupine.CheckResult, by string) {
	t := judges.NewTrial(judges.Search{Time: judges.NewAllowance(time.Minute), Room: judges.SearchRoom}, ops[0].Key, ops, facts.Sighted(run, ops[0].API))
	switch {
	case t.Replay():
		return porcupine.Ok, "replay"
	case t.Refute():
		return porcupine.Illegal, "refutation"
	}
	return t.Decide(), "search"
}

// The preparation must not change the checker's result: it must not reject a legal history or
// accept an illegal one.
func TestTrialAgainstPlainChecker(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 600
	}
	settled := map[string]int{}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		w := liveOf([]string{facts.APIKubernetes, facts.APIEtcd}[seed%2], rng, 2+rng.IntN(4), 1, 6+rng.IntN(18), float64(rng.IntN(5))*0.15)
		spoils := rng.IntN(4)
		for range spoils {
			w.spoil()
		}
		run := w.run(rng.IntN(2) == 0)
		if len(w.ops) == 0 {
			continue
		}
		want := plainly(w.ops)
		if spoils == 0 && want != porcupine.Ok {
			t.Fatalf("seed %d: a legal history is %s\n%s", seed, want, written(w.ops))
		}
		got, by := tried(run, w.ops)
		if got != want {
			t.Fatalf("seed %d: %s says %s, the checker %s\n%s", seed, by, got, want, written(w.ops))
		}
		settled[string(want)+" by "+by]++
	}
	t.Log(settled)
	for name, least := range map[string]int{"Ok by replay": rounds / 2, "Illegal by refutation": rounds / 10} {
		if settled[name] < least {
			t.Errorf("%d are %s, want %d: %v", settled[name], name, least, settled)
		}
	}
	if settled["Ok by search"]*10 > settled["Ok by replay"] || settled["Illegal by search"]*10 > settled["Illegal by refutation"] {
		t.Errorf("too much is left to the search: %v", settled)
	}
}

// The same on histories that are not a store's at all.
func TestTrialOnRandomOperations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	settled := map[string]int{}
	for range 5000 {
		ops := randomHistory(rng)
		want := plainly(ops)
		got, by := tried(&record.Run{}, ops)
		if got != want {
			t.Fatalf("%s says %s, the checker %s\n%s", by, got, want, written(ops))
		}
		settled[string(want)+" by "+by]++
	}
	t.Log(settled)
}

// A part of a history that is refuted means that the whole is not legal.
func TestPartsOfLegalHistoriesAreLegal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for seed := range 1500 {
		w := liveOf([]string{facts.APIKubernetes, facts.APIEtcd}[seed%2], rng, 2+rng.IntN(4), 1, 6+rng.IntN(18), float64(rng.IntN(4))*0.1)
		if rng.IntN(2) == 0 {
			w.spoil()
		}
		if plainly(w.ops) != porcupine.Ok {
			continue
		}
		r := judges.NewRefutation(judges.Operations(w.ops), judges.Search{Time: judges.NewAllowance(time.Minute), Room: judges.SearchRoom})
		for range 10 {
			var part []int
			for i := range r.Ops {
				if rng.IntN(3) > 0 {
					part = append(part, i)
				}
			}
			if part = r.Closed(part); r.Illegal(part) {
				t.Fatalf("round %d: operations %v are called illegal\n%s", seed, part, written(w.ops))
			}
		}
	}
}

// The part shown of an illegal history is illegal, and nothing can be left out of it.
func TestExhibitIsSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	sizes := map[int]int{}
	for range 1000 {
		w := live(rng, 3, 1, 40, 0.1)
		w.spoil()
		tr := judges.NewTrial(judges.Search{Time: judges.NewAllowance(time.Minute), Room: judges.SearchRoom}, "k0", w.ops, facts.Sightings{})
		if tr.Replay() || !tr.Refute() {
			continue
		}
		if !tr.Refutation.Illegal(tr.Core) {
			t.Fatalf("the part is legal:\n%s", written(w.ops))
		}
		for i := range tr.Core {
			without := tr.Refutation.Closed(slices.Delete(slices.Clone(tr.Core), i, i+1))
			if tr.Refutation.Illegal(without) {
				t.Fatalf("operation %d of %v is not needed:\n%s", i, tr.Core, written(w.ops))
			}
		}
		f := tr.Explain()
		if f.Exhibit == nil || len(f.Exhibit.Spans) != len(tr.Core) ||
			!slices.ContainsFunc(f.Exhibit.Spans, func(s Span) bool { return s.Culprit }) {
			t.Fatalf("%s\n%+v", f.Sentence, f.Exhibit)
		}
		sizes[len(tr.Core)]++
	}
	t.Log("operations shown:", sizes)
	if sizes[2] == 0 || sizes[3] == 0 {
		t.Errorf("too few: %v", sizes)
	}
}

func written(ops []record.Op) string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, text.Describe(op)+" expect "+op.Expect+" revision "+op.Revision)
	}
	return strings.Join(lines, "\n")
}
