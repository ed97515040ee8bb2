package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

func TestStarved(t *testing.T) {
	results := []judge.Result{
		{Scenario: "calm", Judge: "harness", Verdict: judge.Pass},
		{Scenario: "stopped early", Judge: "harness", Verdict: judge.NotApplicable},
		{Scenario: "stopped early", Judge: "takeover", Verdict: judge.Inconclusive},
		{Scenario: "busy", Judge: "harness", Verdict: judge.Inconclusive},
		{Scenario: "unclear", Judge: "takeover", Verdict: judge.Inconclusive},
		{Scenario: "busy too", Judge: "harness", Verdict: judge.Inconclusive},
		{Scenario: "busy and wrong", Judge: "harness", Verdict: judge.Inconclusive},
		{Scenario: "busy and wrong", Judge: "linearizable", Verdict: judge.Fail},
	}
	if got, want := Starved(results), []string{"busy", "busy too"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNotStarved: a cluster that is not healthy before the fault ends the experiment before anything is
// measured. No overload explains that, so the record stays, and the scenario is not repeated.
func TestNotStarved(t *testing.T) {
	seen := &record.Run{Complete: true, Meta: record.Meta{Scenario: "x", Checks: []record.Check{{Requirement: "HA-EP-003", Level: "MUST", Judge: "endpoint-removed", Bound: "20s", Fault: "kill"}}}}
	seen.Steadies = []record.Timed[record.Steady]{{V: record.Steady{Phase: "before", Limit: time.Minute, Problems: []string{"node-2: no leader"}}}}
	results := judge.Evaluate(seen)
	if starved := Starved(results); len(starved) > 0 {
		t.Errorf("%q would be repeated", starved)
	}
	const want = "the baseline was unhealthy: node-2: no leader"
	for id, verdict := range map[string]judge.Verdict{"HA-EP-003": judge.Inconclusive, "HA-INV-010": judge.Inconclusive, "RUN/harness": judge.NotApplicable} {
		i := slices.IndexFunc(results, func(r judge.Result) bool { return r.Requirement == id })
		if i < 0 || results[i].Verdict != verdict || id != "HA-INV-010" && results[i].Sentence != want {
			t.Errorf("%s: %+v, want %s, %q", id, results[max(i, 0)], verdict, want)
		}
	}
}

// TestPutAside: a record is kept until the next one of the same scenario replaces it, also if an
// attempt in between left none.
func TestPutAside(t *testing.T) {
	dir := t.TempDir()
	aside := filepath.Join(dir, EarlierDir, "tiny", record.FileName)
	for _, step := range []struct{ left, want string }{{"", ""}, {"first", "first"}, {"", "first"}, {"second", "second"}} {
		if kept := record.Dir(dir, "tiny"); step.left != "" {
			err := os.MkdirAll(kept, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(kept, record.FileName), []byte(step.left), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := PutAside(dir, "tiny", EarlierDir); err != nil {
			t.Errorf("after %q: %v", step.left, err)
		}
		if got, err := os.ReadFile(aside); string(got) != step.want || (err != nil) != (step.want == "") {
			t.Errorf("after %q the record aside is %q, %v", step.left, got, err)
		}
		if _, err := os.Stat(record.Dir(dir, "tiny")); err == nil {
			t.Errorf("after %q a record is left", step.left)
		}
	}
	for range 2 { // once more does nothing
		if err := new(Plan).Restore(dir, "tiny", EarlierDir); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(record.Dir(dir, "tiny"), record.FileName)); string(got) != "second" {
			t.Errorf("brought back: %q, %v", got, err)
		}
	}
}

// TestKilledWhileRepeating: a run that was killed while it repeated scenarios has put their whole records
// aside. They come back when it is resumed, whatever becomes of the repetition.
func TestKilledWhileRepeating(t *testing.T) {
	dir := t.TempDir()
	all := []*scenarios.Scenario{asking("a", 20, scenarios.Topology{}), asking("b", 20, scenarios.Topology{})}
	p := New(refuser{}, clusters.Default(), all, 7, "test")
	p.Parts = []Part{{Name: "cluster-1", Cluster: p.Cluster, Scenarios: []string{"a", "b"}}, {Name: "cluster-2", Cluster: p.Cluster, Scenarios: []string{"a", "b"}}}
	write := func(name string, cutShort bool) {
		t.Helper()
		w, err := record.Create(record.Dir(dir, name), record.Meta{Run: p.Run, Scenario: name})
		if err == nil && !cutShort {
			err = w.Close(record.End{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		write(s.Metadata.Name, false)
		if err := PutAside(dir, s.Metadata.Name, OverloadedDir); err != nil {
			t.Fatal(err)
		}
	}
	write("a", true)
	if left := p.Unsettled(dir); len(left) != 2 {
		t.Fatalf("unsettled: %q", left)
	}
	v, err := p.Resume(t.Context(), refuser{}, dir, shown)
	if err != nil || p.Problem != "" || len(v.records) != 2 {
		t.Errorf("%d records, %q, %v", len(v.records), p.Problem, err)
	}
	for _, s := range all {
		if on := p.Part(s).Name; on != "cluster-1" {
			t.Errorf("the record of %s is of %s", s.Metadata.Name, on)
		}
	}
}

// TestNotRepeated: a first record that is brought back, because the repetition has no cluster, belongs to
// the part that it was made on.
func TestNotRepeated(t *testing.T) {
	dir := t.TempDir()
	all := []*scenarios.Scenario{asking("a", 20, scenarios.Topology{}), asking("b", 20, scenarios.Topology{})}
	p := New(refuser{}, clusters.Default(), all, 7, "test")
	p.Attach = true
	if err := p.Divide(refuser{}, 1); err != nil {
		t.Fatal(err)
	}
	p.Parts = []Part{{Name: "cluster-1", Cluster: p.Cluster, Scenarios: []string{"a"}}, {Name: "cluster-2", Cluster: p.Cluster, Scenarios: []string{"b"}}}
	for _, s := range all {
		w, err := record.Create(record.Dir(dir, s.Metadata.Name), record.Meta{Run: p.Run, Scenario: s.Metadata.Name})
		if err == nil {
			err = w.Close(record.End{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.again(t.Context(), refuser{}, dir, []string{"a", "b"}, 1, OverloadedDir, shown); err == nil {
		t.Error("the repetition had a cluster")
	}
	for i, s := range all {
		if _, err := record.Read(record.Dir(dir, s.Metadata.Name)); err != nil || p.Part(s).Name != p.Parts[i].Name {
			t.Errorf("%s is of %s: %v", s.Metadata.Name, p.Part(s).Name, err)
		}
	}
	for _, part := range p.Parts[:2] {
		if _, judged := part.Judging[part.Scenarios[0]]; !judged { // the plan is that of a run that was killed
			t.Errorf("nothing shows that %s was judged before the repetition", part.Scenarios[0])
		}
	}
	if len(p.Parts) != 3 {
		t.Errorf("the plan has %d parts, and the next one would have a name that was used", len(p.Parts))
	}
}
