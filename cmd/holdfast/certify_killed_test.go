package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/certify"
)

// killMoment is when a certification is killed: in the experiment of a number, from 0, or between
// the one before and it, where the cluster is made or checked.
type killMoment struct {
	experiment int
	begun      bool
	after      time.Duration // from the begin of it, or from the end of the one before
}

// betweenLimit is how long after an experiment a moment between two of them can be.
const betweenLimit = 10 * time.Second

// killMoments spreads kills over experiments of a length, in order: every experiment has one if
// there are enough. The seed decides the rest.
func killMoments(seed uint64, kills, experiments int, length time.Duration) (all []killMoment) {
	random := rand.New(rand.NewPCG(seed, uint64(kills)))
	for k := range kills {
		m := killMoment{experiment: (2*k + 1) * experiments / (2 * kills), begun: random.IntN(4) > 0}
		limit := betweenLimit
		if m.begun {
			limit = length
		}
		m.after = time.Duration(random.Int64N(int64(limit)))
		all = append(all, m)
	}
	return all
}

// await waits until the moment, in a run of experiments with these names in a results directory.
func (m killMoment) await(out string, names []string, limit time.Duration) error {
	reached := func() bool {
		if m.experiment > 0 && !wholeRecord(out, names[m.experiment-1]) {
			return false
		}
		_, err := os.Stat(filepath.Join(record.Dir(out, names[m.experiment]), record.FileName))
		return err == nil || !m.begun
	}
	for deadline := time.Now().Add(limit); !reached(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%+v was not reached within %s", m, limit)
		}
	}
	time.Sleep(m.after)
	return nil
}

func wholeRecord(out, name string) bool {
	seen, err := record.Read(record.Dir(out, name))
	return err == nil && seen.Complete && seen.End.Error == ""
}

// verdictsOf returns the verdicts of a bundle by experiment, requirement and judge, which may have
// several on one requirement.
func verdictsOf(v *certify.Verification) map[string]certify.Verdict {
	all := map[string]certify.Verdict{}
	for _, o := range v.Statement.Verdicts {
		name, n := fmt.Sprintf("%s in %s by %s", o.Requirement, o.Scenario, o.Judge), 1
		for _, there := all[fmt.Sprintf("%s %d", name, n)]; there; _, there = all[fmt.Sprintf("%s %d", name, n)] {
			n++
		}
		all[fmt.Sprintf("%s %d", name, n)] = o
	}
	return all
}

// overloadedIn returns the experiments of a bundle whose machine was overloaded, and under "" whether
// there are any. The judge of the harness also reports an overload that changed no failure, which can
// leave other verdicts inconclusive, such as those about rare heartbeats.
func overloadedIn(v *certify.Verification) map[string]bool {
	all := map[string]bool{}
	for _, o := range v.Statement.Verdicts {
		if o.Judge == "harness" && (o.Verdict == judge.Inconclusive || strings.HasPrefix(o.Sentence, "No verdict was lost to overload, but ")) {
			all[o.Scenario], all[""] = true, true
		}
	}
	return all
}

// differences compares the bundles of two certifications: the verdict on each row, the nodes that
// were hit for it, and each verdict of each experiment. Those are doubtful that the side whose
// machine was overloaded left open, and nodes that only the other side hit: an overloaded cluster
// may not be steady in time, and its experiment then ends before any fault and final reads.
func differences(a, b *certify.Verification) (certain, doubtful []string) {
	busyA, busyB := overloadedIn(a), overloadedIn(b)
	open := func(v judge.Verdict) bool { return v == judge.Inconclusive || v == judge.NotApplicable }
	differ := func(what, scenario string, one, other judge.Verdict, sentences ...string) {
		text := fmt.Sprintf("%s: %q and %q (%s)", what, one, other, strings.Join(sentences, " / "))
		if open(one) && busyA[scenario] || open(other) && busyB[scenario] {
			doubtful = append(doubtful, text)
		} else {
			certain = append(certain, text)
		}
	}
	ours, theirs := verdictsOf(a), verdictsOf(b)
	names := maps.Clone(ours)
	maps.Copy(names, theirs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if one, other := ours[name], theirs[name]; one.Verdict != other.Verdict {
			differ(name, names[name].Scenario, one.Verdict, other.Verdict, one.Sentence, other.Sentence)
		}
	}
	rows := map[string][2]certify.Row{}
	for side, v := range []*certify.Verification{a, b} {
		for _, r := range v.Outcome.Rows {
			both := rows[r.ID]
			both[side] = r
			rows[r.ID] = both
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		one, other := rows[id][0], rows[id][1]
		switch {
		case one.Verdict != other.Verdict:
			differ("row "+id, "", one.Verdict, other.Verdict, one.Sentence, other.Sentence)
		case one.Verdict == judge.Pass && !slices.Equal(one.Victims, other.Victims):
			text := fmt.Sprintf("row %s: the nodes %v and %v were hit", id, one.Victims, other.Victims)
			if busyA[""] && within(one.Victims, other.Victims) || busyB[""] && within(other.Victims, one.Victims) {
				doubtful = append(doubtful, text)
			} else {
				certain = append(certain, text)
			}
		}
	}
	return certain, doubtful
}

// within reports whether all has each of some.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// Kills hit every experiment, in order, and a seed repeats them.
func TestKillMoments(t *testing.T) {
	for seed := range uint64(50) {
		all := killMoments(seed, 10, 3, 30*time.Second)
		hit, begun := map[int]int{}, 0
		for i, m := range all {
			hit[m.experiment]++
			if m.begun {
				begun++
			}
			if m.experiment < 0 || m.experiment > 2 || i > 0 && m.experiment < all[i-1].experiment || m.after < 0 || m.after >= 30*time.Second || !m.begun && m.after >= betweenLimit {
				t.Errorf("seed %d: %+v", seed, all)
			}
		}
		if len(all) != 10 || hit[0] < 3 || hit[1] < 3 || hit[2] < 3 || begun == 0 {
			t.Errorf("seed %d: %+v", seed, all)
		}
		if !slices.Equal(all, killMoments(seed, 10, 3, 30*time.Second)) {
			t.Errorf("seed %d gives other moments again", seed)
		}
		if one := killMoments(seed, 1, 3, 30*time.Second); len(one) != 1 || one[0].experiment != 1 {
			t.Errorf("seed %d: %+v, want one kill, in the second of three experiments", seed, one)
		}
	}
}

// A moment is awaited until the experiment before has a whole record, and its own has one.
func TestKillMomentAwait(t *testing.T) {
	out, names := t.TempDir(), []string{"a", "b"}
	for i, name := range names {
		for _, begun := range []bool{false, true} {
			err := killMoment{experiment: i, begun: begun}.await(out, names, -1)
			if (err == nil) == begun { // the record before is whole
				t.Errorf("%s, begun %t, before its record: %v", name, begun, err)
			}
		}
		w, err := record.Create(record.Dir(out, name), record.Meta{Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if err := (killMoment{experiment: i, begun: true}).await(out, names, -1); err != nil {
			t.Error(err)
		}
		if i == 0 {
			if err := (killMoment{experiment: 1}).await(out, names, -1); err == nil {
				t.Error("the record before is not whole, and the moment is reached")
			}
		}
		if err := w.Close(record.End{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Only an overloaded machine justifies another verdict, and only one that says neither pass nor fail.
func TestDifferences(t *testing.T) {
	made := func(verdict, harness judge.Verdict, victims ...string) *certify.Verification {
		row := certify.Row{ID: "HA-LE-015", Verdict: verdict, Victims: victims}
		return &certify.Verification{Outcome: &certify.Outcome{Rows: []certify.Row{row}}, Statement: &certify.Statement{Verdicts: []certify.Verdict{
			{Scenario: "x", Requirement: "HA-LE-015", Judge: "active-again", Verdict: judge.Pass},
			{Scenario: "x", Requirement: "HA-LE-015", Judge: "active-again", Verdict: verdict},
			{Scenario: "x", Requirement: "RUN/harness", Judge: "harness", Verdict: harness},
		}}}
	}
	pass := made(judge.Pass, judge.Pass, "node-1")
	strained := made(judge.Inconclusive, judge.Pass, "node-1")
	strained.Statement.Verdicts[2].Sentence = "No verdict was lost to overload, but the machine was overloaded."
	for name, test := range map[string]struct {
		other             *certify.Verification
		certain, doubtful int
	}{
		"the same":                   {made(judge.Pass, judge.Pass, "node-1"), 0, 0},
		"failed":                     {made(judge.Fail, judge.Pass, "node-1"), 2, 0},
		"failed while overloaded":    {made(judge.Fail, judge.Inconclusive, "node-1"), 2, 1},
		"inconclusive":               {made(judge.Inconclusive, judge.Pass, "node-1"), 2, 0},
		"not applicable":             {made(judge.NotApplicable, judge.Pass, "node-1"), 2, 0},
		"not applicable by overload": {made(judge.NotApplicable, judge.Inconclusive, "node-1"), 0, 3},
		"inconclusive by overload":   {made(judge.Inconclusive, judge.Inconclusive, "node-1"), 0, 3},
		"inconclusive amid overload": {strained, 0, 2},
		"another node was hit":       {made(judge.Pass, judge.Pass, "node-2"), 1, 0},
		"another amid overload":      {made(judge.Pass, judge.Inconclusive, "node-2"), 1, 1},
		"none was hit":               {made(judge.Pass, judge.Pass), 1, 0},
		"none amid overload":         {made(judge.Pass, judge.Inconclusive), 0, 2},
		"without any of its rows":    {&certify.Verification{Outcome: &certify.Outcome{}, Statement: pass.Statement}, 1, 0},
		"without an experiment":      {&certify.Verification{Outcome: pass.Outcome, Statement: &certify.Statement{}}, 3, 0},
		"with an experiment's twin":  {&certify.Verification{Outcome: pass.Outcome, Statement: &certify.Statement{Verdicts: slices.Repeat(pass.Statement.Verdicts, 2)}}, 3, 0},
	} {
		for i, pair := range [][2]*certify.Verification{{pass, test.other}, {test.other, pass}} {
			certain, doubtful := differences(pair[0], pair[1])
			if len(certain) != test.certain || len(doubtful) != test.doubtful {
				t.Errorf("%s (%d): certain %q, doubtful %q; want %d and %d", name, i, certain, doubtful, test.certain, test.doubtful)
			}
		}
	}
}
