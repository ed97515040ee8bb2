package judge

import (
	"slices"
	"testing"

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
