package certify

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// The reports of a certification name the rows that are not certified, also those that passed in too
// few experiments; those of an observation name what failed or is inconclusive.
func TestOpenRows(t *testing.T) {
	rows := []Row{
		{ID: "HA-EP-003", Verdict: judge.Inconclusive, Sentence: "no experiment of apiserver-killed hit node-2"},
		{ID: "HA-LE-011", Verdict: judge.NotApplicable, Justified: true, Sentence: "it has leases"},
		{ID: "HA-QR-005", Verdict: judge.Pass, Sentence: "fine"},
		{ID: "HA-RC-004", Verdict: judge.NotApplicable, Sentence: "it cannot be tested here"},
		{ID: "HA-TOP-001", Verdict: judge.Fail, Sentence: "two members"},
	}
	const missed, away, two = "HA-EP-003 is inconclusive: no experiment of apiserver-killed hit node-2", "HA-RC-004 is not applicable: it cannot be tested here", "HA-TOP-001 is fail: two members"
	for class, want := range map[string][]string{
		"must":     {missed, away, two},
		"partial":  {missed, away, two},
		"observed": {missed, two},
	} {
		o := &Outcome{Class: class, Rows: rows}
		if got := o.certificate().Open; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
	if got := (&Outcome{Class: "partial", Certified: true, Rows: rows[1:3]}).certificate().Open; len(got) > 0 {
		t.Errorf("certified, and open: %q", got)
	}
}
