package suites

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestRepeated: of two records of a scenario that is repeated the second one counts if it is whole, or if
// a requirement failed in it, even if the worker died or the cluster could not be deleted afterwards.
// Otherwise the first one comes back, with its verdicts.
func TestRepeated(t *testing.T) {
	gomega.RegisterTestingT(t)
	const object, other = "v1", "v2"
	healthy := []record.Op{
		{Client: "a", Entrance: "a", API: "kubernetes", Type: record.OpCreate, Key: "k", Value: object, Revision: "1", Outcome: record.OK, Call: 1, Return: 2},
		{Client: "a", Entrance: "a", API: "kubernetes", Type: record.OpUpdate, Key: "k", Value: other, Expect: "1", Revision: "2", Outcome: record.OK, Call: 3, Return: 4},
		{Client: "b", Entrance: "b", API: "kubernetes", Type: record.OpGet, Key: "k", Value: other, Found: true, Revision: "2", Outcome: record.OK, Call: 5, Return: 6},
	}
	stale := append(slices.Clip(healthy), record.Op{Client: "b", Entrance: "b", API: "kubernetes", Type: record.OpGet, Key: "k", Value: object, Found: true, Revision: "1", Outcome: record.OK, Call: 7, Return: 8})
	died := errors.New("the worker died")
	for name, tc := range map[string]struct {
		first, second []record.Op // nil for no record
		end           string      // why the second one is not whole
		err           error
		kept          uint64
		fails         bool
	}{
		"whole":                                   {first: healthy, second: healthy, kept: 2},
		"whole, then the worker died":             {first: healthy, second: healthy, err: died, kept: 2},
		"interrupted":                             {first: healthy, second: healthy, end: "interrupted", kept: 1},
		"interrupted after a violation":           {first: healthy, second: stale, end: "interrupted", kept: 2, fails: true},
		"a violation, then the worker died":       {first: healthy, second: stale, err: died, kept: 2, fails: true},
		"without a cluster":                       {first: healthy, err: died, kept: 1},
		"without a cluster after a violation":     {first: stale, err: died, kept: 1, fails: true},
		"interrupted after an earlier violation":  {first: stale, second: healthy, end: "interrupted", err: died, kept: 1, fails: true},
		"without a record of the first attempt":   {second: healthy, kept: 2},
		"a violation in the first attempt, whole": {first: stale, second: healthy, kept: 2}, // reported by spec
	} {
		t.Run(name, func(t *testing.T) {
			one := scenarios.All()[0]
			scenario := one.Metadata.Name
			s := &suite{options: &Options{}, dir: t.TempDir(), plan: run.New(local.Provider{}, clusters.Default(), []*scenarios.Scenario{one}, 7, "test")}
			write := func(seed uint64, ops []record.Op, end string) {
				w, err := record.Create(record.Dir(s.dir, scenario), record.Meta{Run: s.plan.Run, Scenario: scenario, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				for _, op := range ops {
					if err := w.Append(record.KindOp, op); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(record.End{Error: end}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.first != nil {
				write(1, tc.first, "")
			}
			err := s.repeated(scenario, run.EarlierDir, func() error {
				if _, err := os.Stat(record.Dir(s.dir, scenario)); err == nil {
					t.Error("the record was not put aside")
				}
				if tc.second != nil {
					write(2, tc.second, tc.end)
				}
				return tc.err
			})
			if !errors.Is(err, tc.err) {
				t.Error(err)
			}
			if seen, err := record.Read(record.Dir(s.dir, scenario)); err != nil || seen.Meta.Seed != tc.kept {
				t.Errorf("kept is %v, %v, want the record of attempt %d", seen, err, tc.kept)
			}
			settled := s.settled(scenario)
			if fails := slices.ContainsFunc(settled.Results, func(r judge.Result) bool { return r.Requirement == "HA-INV-001" && r.Verdict == judge.Fail }); fails != tc.fails {
				t.Errorf("HA-INV-001 fails: %t, want %t", fails, tc.fails)
			}
		})
	}
}
