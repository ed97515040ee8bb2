package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestOrigins: the evidence of a verdict says where the settings come from that its bound is
// computed from, as far as the record has that.
func TestOrigins(t *testing.T) {
	check := record.Check{Requirement: "HA-EP-003", Judge: "endpoint-removed", Fault: "kill", Bound: "T + I + M"}
	evidence := func(change func(*record.Run)) []string {
		run := removed().change(change).run
		run.Meta.Checks = []record.Check{check}
		for _, r := range Evaluate(run) {
			if r.Requirement == check.Requirement {
				return r.Evidence
			}
		}
		t.Fatal("the check was not judged")
		return nil
	}
	const want = "settings of the bound: I = 10s: constant of kube-apiserver; T = 15s: assumed, since nothing shows it"
	if got := evidence(func(r *record.Run) {
		r.Meta.Origins, r.Meta.Assumed = map[string]string{"I": "constant of kube-apiserver", "E": "default of etcd"}, []string{"T"}
	}); !slices.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := evidence(func(*record.Run) {}); slices.ContainsFunc(got, func(line string) bool { return len(line) > 8 && line[:8] == "settings" }) {
		t.Errorf("a record of an earlier version: %q", got)
	}
}

// TestOriginsOfOwnElection: the record has the origin of the longest election alone, which is not that
// of a shorter one.
func TestOriginsOfOwnElection(t *testing.T) {
	c := &evaluator{run: &record.Run{Meta: record.Meta{Settings: map[string]time.Duration{"L": 15 * time.Second},
		Origins: map[string]string{"L": "leader-elect-lease-duration of kube-scheduler"}}}}
	for lease, want := range map[time.Duration]string{
		15 * time.Second: "settings of the bound: L = 15s: leader-elect-lease-duration of kube-scheduler",
		4 * time.Second:  "settings of the bound: L = 4s: of the component's own election",
	} {
		if got := c.origins(&Bound{Inputs: map[string]time.Duration{"L": lease}}); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
