package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// A violation that nothing can explain counts in a run that was interrupted, too; what a
// record that was cut short seems to show does not.
func TestInterrupted(t *testing.T) {
	stale := func() *story { return two().read("b", "k", "v1", 1, 30, 31) }
	for _, tt := range []struct {
		name   string
		change func(*record.Run)
		want   Verdict
	}{
		{"whole", func(*record.Run) {}, Fail},
		{"interrupted", func(r *record.Run) { r.End.Error = "interrupted: context canceled" }, Fail},
		{"cut short", func(r *record.Run) { r.Complete, r.Problem = false, "line 9: no end" }, Inconclusive},
		{"interrupted, without a violation", func(r *record.Run) { r.Ops, r.End.Error = r.Ops[:2], "interrupted" }, Inconclusive},
	} {
		s := stale().change(tt.change)
		found := 0
		for _, r := range Evaluate(s.run) {
			switch r.Judge {
			case "linearizable":
				found++
				if r.Verdict != tt.want || tt.want == Fail && !strings.Contains(r.Sentence, "must be linearizable") {
					t.Errorf("%s: %s (want %s): %s", tt.name, r.Verdict, tt.want, r.Sentence)
				}
			case "steady-state":
				found++
				if tt.name != "whole" && r.Verdict == Pass {
					t.Errorf("%s: the steady state passes", tt.name)
				}
			}
		}
		if found != 2 {
			t.Errorf("%s: %d of 2 verdicts", tt.name, found)
		}
	}
}
