package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// planned returns a plan of two clusters with two scenarios each. Each scenario is expected to
// take 22 s, and creating a cluster 8 s.
func planned(t *testing.T) *run.Plan {
	t.Helper()
	p := &run.Plan{Cluster: clusters.Default(), Parallel: 2}
	for i, name := range []string{"a", "b", "c", "d"} {
		s := &scenarios.Scenario{Metadata: scenarios.Metadata{Name: name}, Spec: scenarios.Spec{Timeline: []engine.Step{{Wait: "20s"}}}}
		p.Scenarios = append(p.Scenarios, s)
		if i%2 == 0 {
			p.Parts = append(p.Parts, run.Part{Name: "cluster-" + string(rune('1'+i/2)), Cluster: p.Cluster, Expected: 52 * time.Second})
		}
		one := &p.Parts[i/2]
		one.Scenarios = append(one.Scenarios, name)
	}
	return p
}

func TestBoard(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var out bytes.Buffer
	b, err := newBoard(planned(t), newProgress(&out))
	if err != nil {
		t.Fatal(err)
	}
	ends := func(want time.Duration) {
		t.Helper()
		if got := b.ends(time.Now()).Round(time.Second); got != want {
			t.Errorf("ends in %s, want %s", got, want)
		}
	}
	last := func(want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, w := range want {
			if !strings.Contains(lines[len(lines)-1], w) {
				t.Errorf("the last line is %q, without %q", lines[len(lines)-1], w)
			}
		}
	}
	pass := []judge.Result{{Requirement: "HA-1", Verdict: judge.Pass}, {Requirement: "HA-2", Verdict: judge.Pass}}
	ends(52 * time.Second)
	b.Says("cluster-1", "starting")
	last("cluster-1  starting")
	ends(52 * time.Second) // cluster-2 does not exist yet
	b.Says("cluster-2", "starting")
	b.Begins("cluster-1", "a")
	last("cluster-1  [1/4] a starts, expected to take 22s; 4 left, until about ", "(in 44s)")
	b.Begins("cluster-2", "c")
	last("cluster-2  [2/4] c starts")
	b.part("cluster-1").since = time.Now().Add(-12 * time.Second)
	b.part("cluster-2").since = time.Now().Add(-40 * time.Second) // longer than expected
	ends(32 * time.Second)
	if got, want := b.status(time.Now()), "0 of 4 done, a 12s/22s, c 40s/22s, done in 32s"; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	b.Fewer(1)
	last("  the machine is too slow for 2 clusters at a time; the rest runs on 1 at a time; 4 left, until about ", "(in 54s)")
	b.parallel = 2
	b.Settled("cluster-1", run.Settled{Scenario: "a", Results: pass})
	last("[1/4] a: 2 pass; 3 left")
	if got := b.status(time.Now()); !strings.HasPrefix(got, "1 of 4 done, cluster-1 is being prepared, c 40s/19s") {
		t.Error(got)
	}
	b.parallel = 1
	if got := b.status(time.Now()); !strings.HasPrefix(got, "1 of 4 done, cluster-1 waits, c 40s/19s") {
		t.Error(got)
	}
	b.parallel = 2
	// The worker of cluster-2 dies in c, and another one continues with d.
	b.Begins("cluster-2", "d")
	last("[3/4] d starts", "2 left")
	b.Settled("cluster-2", run.Settled{Scenario: "d"})
	b.Ended("cluster-2")
	// a took 12 s of the expected 22 s, d none.
	ends(15 * time.Second)
	// The worker of cluster-1 dies without starting b.
	b.Ended("cluster-1")
	ends(0)
	if got := b.outlook(); got != "nothing left" {
		t.Error(got)
	}
}

func TestVerdictsInWords(t *testing.T) {
	var results []judge.Result
	for id, v := range map[string]judge.Verdict{"HA-1": judge.Pass, "HA-2": judge.Fail, "HA-3": judge.Pass, "HA-INV-001": judge.Inconclusive, "HA-INV-002": judge.Pass} {
		results = append(results, judge.Result{Requirement: id, Verdict: v})
	}
	if got := verdicts(results); got != "1 fail, 1 inconclusive, 2 pass" {
		t.Error(got)
	}
}

// TestEarly: an interrupted run does not say that everything was cleaned up if it was not.
func TestEarly(t *testing.T) {
	for name, tc := range map[string]struct {
		plan        run.Plan
		interrupted error
		want        string
	}{
		"whole":                   {},
		"interrupted":             {run.Plan{Problem: "cluster-1: interrupted\ncluster-2: interrupted"}, context.Canceled, "interrupted: faults were healed and clusters deleted"},
		"timed out":               {run.Plan{Problem: "interrupted", Attach: true}, context.DeadlineExceeded, "--timeout has expired: faults were healed and the cluster released"},
		"interrupted, not healed": {run.Plan{Problem: "cluster-1: failed to remove the agent\ninterrupted"}, context.Canceled, "interrupted, and the run had a problem: cluster-1: failed to remove the agent; what was settled"},
		"not interrupted":         {run.Plan{Problem: "cluster-1: no space"}, nil, "the run had a problem: cluster-1: no space"},
	} {
		if got := early(&tc.plan, &run.Verdicts{}, tc.interrupted); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
