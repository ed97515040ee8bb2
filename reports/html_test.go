package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Only a record that is beside the page has a link.
func TestLinksToRecords(t *testing.T) {
	dir := t.TempDir()
	beside := record.Dir(dir, "api-server-killed")
	if err := os.MkdirAll(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(beside, record.FileName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]int{dir: 1, t.TempDir(): 0} {
		if err := Write(where, fixtureRun(), fixtureResults(), fixtureRecords(), nil); err != nil {
			t.Fatal(err)
		}
		page := readFile(t, where, HTMLFile)
		if n := strings.Count(page, ">record</a>"); n != want || strings.Contains(page, `href="record/api-server-killed/`+record.FileName) != (want == 1) {
			t.Errorf("%d links, want %d", n, want)
		}
	}
}

// Many steady states that were reached share a line; one that was not has its own.
func TestSteadyFacts(t *testing.T) {
	run := &record.Run{}
	steady := func(phase, part string, ok bool, took time.Duration) {
		appendAt(&run.Steadies, 0, record.Steady{Phase: phase, Part: part, OK: ok, Took: took, Limit: 30 * time.Second, Problems: []string{"no leader"}[:1-int(oneIf(ok))]})
	}
	steady("before", "", true, time.Second)
	steady(record.SteadyPart, "etcd", true, 4*time.Second)
	steady("after", "", true, 2*time.Second)
	want := "[{Steady state before reached after 1s (limit 30s)} {Steady state of etcd reached after 4s (limit 30s)} {Steady state after reached after 2s (limit 30s)}]"
	if got := fmt.Sprint(steadyFacts(run)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	steady(record.SteadyPart, "node-2", false, 30*time.Second)
	want = "[{Steady state of node-2 not reached within 30s: no leader} {Steady state reached 3 times, after 4s at most (of etcd, limit 30s)}]"
	if got := fmt.Sprint(steadyFacts(run)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A scenario has a badge for each requirement, with the worst verdict of its judges.
func TestBadgesOfScenario(t *testing.T) {
	of := func(id string, v judge.Verdict, says string) judge.Result {
		return judge.Result{Requirement: id, Level: "MUST", Scenario: "s", Verdict: v, Sentence: says}
	}
	v := viewScenario(input{Results: New(fixtureRun(), []judge.Result{of("HA-RC-001", judge.Pass, "fine"), of("HA-RC-001", judge.Fail, "late"),
		of("HA-RC-001", judge.Pass, "fine, too"), of("HA-RC-002", judge.Pass, ""), of("RUN/harness", judge.Pass, "")}, nil)}, "s")
	var got []string
	for _, b := range v.Badges {
		got = append(got, fmt.Sprint(b.ID, " ", b.Verdict, " ", b.Sentence))
	}
	if want := "HA-RC-001 fail late, HA-RC-002 pass , RUN/harness pass "; strings.Join(got, ", ") != want || len(v.Results) != 5 {
		t.Errorf("%q of %d results, want %q", got, len(v.Results), want)
	}
}

func TestSharePercent(t *testing.T) {
	bound := fixtureBound("3T", 45, nil)
	for _, test := range []struct {
		verdict  judge.Verdict
		measured float64
		want     float64
	}{{judge.Pass, 9, 20}, {judge.Fail, 62.9, 100}, {judge.Inconclusive, 50, 100}} {
		if got := sharePercent(Requirement{Verdict: test.verdict, Bound: bound, MeasuredDuration: dur(test.measured)}); got != test.want {
			t.Errorf("%s, %g s: %g, want %g", test.verdict, test.measured, got, test.want)
		}
	}
	if sharePercent(Requirement{Verdict: judge.Pass}) != -1 {
		t.Error("a meter without a bound")
	}
}

// The table that says where the time went is folded if it is long.
func TestLongTableOfTimes(t *testing.T) {
	run := fixtureRun()
	for _, folded := range []bool{false, true} {
		page, err := renderHTML(input{Results: New(run, nil, nil)})
		if err != nil || strings.Contains(string(page), "<details><summary>24 rows</summary>") != folded {
			t.Errorf("folded: %t, want %t; %v", !folded, folded, err)
		}
		for i := range 20 {
			run.Times = append(run.Times, ScenarioTime{Scenario: fmt.Sprint("s", i), Spent: Spent{Work: time.Second}})
		}
	}
}
