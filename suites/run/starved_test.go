package run

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
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
