package suites

import (
	"errors"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestRepeated: a repetition that is interrupted does not replace the first record, unless a requirement
// failed in it.
func TestRepeated(t *testing.T) {
	failed := []judge.Result{{Requirement: "HA-EP-003", Verdict: judge.Fail}}
	for name, tc := range map[string]struct {
		second run.Settled
		err    error
		kept   string
	}{
		"whole":                         {run.Settled{Scenario: "second"}, nil, "second"},
		"interrupted":                   {run.Settled{Scenario: "second", Problem: "interrupted"}, nil, "first"},
		"interrupted after a violation": {run.Settled{Scenario: "second", Problem: "interrupted", Results: failed}, nil, "second"},
		"without a cluster":             {run.Settled{}, errors.New("no cluster"), "first"},
	} {
		dir := t.TempDir()
		write := func(of string) error {
			w, err := record.Create(record.Dir(dir, "tiny"), record.Meta{Run: of})
			if err == nil {
				err = w.Close(record.End{})
			}
			return err
		}
		if err := write("first"); err != nil {
			t.Fatal(err)
		}
		settled, err := repeated(dir, "tiny", run.Settled{Scenario: "first"}, func() (run.Settled, error) {
			return tc.second, errors.Join(write("second"), tc.err)
		})
		if !errors.Is(err, tc.err) || settled.Scenario != tc.kept {
			t.Errorf("%s: the %s attempt counts, %v", name, settled.Scenario, err)
		}
		if seen, err := record.Read(record.Dir(dir, "tiny")); err != nil || seen.Meta.Run != tc.kept {
			t.Errorf("%s: %v, want the record of the %s attempt", name, err, tc.kept)
		}
	}
}
