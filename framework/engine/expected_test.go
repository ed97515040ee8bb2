package engine

import (
	"cmp"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestExpected(t *testing.T) {
	s := framework.Settings{LeaseDuration: 15 * time.Second, RetryPeriod: 2 * time.Second, EndpointTTL: 15 * time.Second,
		EndpointInterval: 10 * time.Second, ElectionTimeout: time.Second, Margin: 2 * time.Second}
	kill := Step{Inject: &Inject{Fault: "kill", Target: "kcm/active", ID: "a"}}
	second := Step{Inject: &Inject{Fault: "kill", Target: "scheduler/active", ID: "b"}}
	cut := Step{Inject: &Inject{Fault: "isolate", Target: "node/2", ID: "a"}}
	until := func(condition, fault string) Step {
		return Step{Until: &Until{Condition: condition, Fault: fault, AtMost: "20s"}}
	}
	const around, healed = expectedAround, expectedHealing + expectedRecovery
	for _, tc := range []struct {
		name  string
		steps []Step
		want  time.Duration
	}{
		{"nothing", nil, around},
		{"waits", []Step{{Wait: "4s"}, {Wait: "2E + M"}}, around + 8*time.Second},
		{"actions", []Step{{Action: &Action{Name: "ready"}}, {Action: &Action{Name: "minority-probe"}}}, around + expectedAction + 5*time.Second},
		{"a takeover", []Step{kill, until("takeover", "a"), {Heal: "a"}}, around + 17*time.Second + healed},
		{"a takeover that has begun before", []Step{kill, {Wait: "10s"}, until("takeover", "a"), {Heal: "a"}}, around + 17*time.Second + healed},
		{"a takeover that is over", []Step{kill, {Wait: "20s"}, until("takeover", "a"), {Heal: "a"}}, around + 20*time.Second + healed},
		{"two at once", []Step{kill, second, until("takeover", "a"), until("takeover", "b"), {Heal: "a"}, {Heal: "b"}},
			around + 17*time.Second + expectedHealing + healed},
		{"healed at the end", []Step{kill, {Wait: "5s"}}, around + 5*time.Second + healed},
		{"both at once", []Step{kill, {Inject: &Inject{Fault: "cut", ID: "b"}}, {Wait: "10s"}, {Heal: "a, b"}}, around + 15*time.Second + healed},
		{"a cut", []Step{cut, {Wait: "10s"}, {Heal: "a"}}, around + 15*time.Second + healed},
		{"a condition that nothing is known of", []Step{until("moon-full", "")}, around + 10*time.Second},
	} {
		if got := (Experiment{Timeline: tc.steps}).Expected(s); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Every condition and action with a typical time exists.
func TestTypical(t *testing.T) {
	for name, c := range conditions() {
		if _, err := duration(cmp.Or(c.typical, "0s"), framework.Settings{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
