package engine

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestTTL: a fault lives as long as its scenario says, or longer than what comes after it can take.
func TestTTL(t *testing.T) {
	settings := framework.Settings{ElectionTimeout: time.Second, Margin: 2 * time.Second}
	steps := []Step{{Wait: "1h"}, {Inject: &Inject{Fault: "kill", ID: "a"}}, {Wait: "2E + M"}, {Until: &Until{Condition: "takeover", AtMost: "20s"}},
		{Inject: &Inject{Fault: "kill", ID: "b", TTL: "3E"}}, {Action: &Action{Name: "ready"}}, {Action: &Action{Name: "snapshot"}}, {Heal: "a, b"},
		{Inject: &Inject{Fault: "reboot", ID: "c", Params: map[string]string{"off": "3m"}}}, {Inject: &Inject{Fault: "own", ID: "d"}}}
	for _, tc := range []struct {
		step int
		want time.Duration
	}{
		{1, spare + 4*injectLimit + 4*time.Second + 20*time.Second + actionLimit + snapshotLimit + healLimit + 3*time.Minute},
		{4, 3 * time.Second},
		{8, spare + 2*injectLimit + 3*time.Minute},
		{9, spare + injectLimit},
	} {
		if got, err := (Experiment{Timeline: steps}).TTL(tc.step, settings); err != nil || got != tc.want {
			t.Errorf("step %d: %s, %v, want %s", tc.step, got, err, tc.want)
		}
	}
	if _, err := (Experiment{Timeline: []Step{{Inject: &Inject{TTL: "soon"}}}}).TTL(0, settings); err == nil {
		t.Error("a broken formula was accepted")
	}
}
