package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestEvidenceNamesTheCluster shows that every verdict on a cluster that a scenario asked for says
// what it asked for, and that no verdict on the user's own cluster does.
func TestEvidenceNamesTheCluster(t *testing.T) {
	all := scenarios.All()
	asks := all[slices.IndexFunc(all, func(s *scenarios.Scenario) bool { return s.Metadata.Name == "apiserver-drained" })]
	described := AsDescribed(clusters.Default(), []*scenarios.Scenario{asks})[0]
	for _, test := range []struct {
		name string
		s    *scenarios.Scenario
		want bool
	}{{"asked for", asks, true}, {"described", described, false}} {
		t.Run(test.name, func(t *testing.T) {
			dir, name, checks := t.TempDir(), test.s.Metadata.Name, test.s.Experiment().Checks
			p := New(local.Provider{}, clusters.Default(), []*scenarios.Scenario{test.s}, 7, "test")
			w, err := record.Create(record.Dir(dir, name), record.Meta{Run: p.Run, Scenario: name, Checks: checks})
			if err == nil {
				err = w.Close(record.End{})
			}
			if err != nil {
				t.Fatal(err)
			}
			results, seen := p.JudgeScenario(dir, test.s)
			if seen == nil || len(results) <= len(checks) {
				t.Fatalf("%d results for %d checks, from record %v", len(results), len(checks), seen)
			}
			for _, r := range results {
				const begins = "on a cluster that the scenario asked for: topology draining, "
				i := slices.IndexFunc(r.Evidence, func(line string) bool { return strings.HasPrefix(line, begins) })
				if i >= 0 != test.want || i >= 0 && !strings.Contains(r.Evidence[i], "kube-apiserver --shutdown-delay-duration=5s") {
					t.Errorf("%s by %s: evidence %q", r.Requirement, r.Judge, r.Evidence)
				}
			}
		})
	}
}
