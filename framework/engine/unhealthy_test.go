package engine

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// TestUnhealthyBaseline: an experiment without faults shows what is wrong with a cluster that is
// unhealthy from the start, without adding traffic; one with faults ends there.
func TestUnhealthyBaseline(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		steps []Step
		want  []string
	}{
		{"harmless", []Step{{Action: &Action{Name: "ready"}}, {Wait: "1s"}}, []string{"baseline", "action ready", "wait 1s", "final reads"}},
		{"with a fault", []Step{{Action: &Action{Name: "ready"}}, kill("a", "node-1")}, []string{"baseline"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newFake(t)
			c.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/readyz" {
					apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcd failed")
				}
				return r.URL.Path == "/readyz"
			})
			run, err := carryOut(t.Context(), t, c, Options{baseline: 2 * time.Second}, tc.steps...)
			if err != nil || !run.Complete || run.End.Error != "" {
				t.Fatal(err, run.Problem, run.End)
			}
			if got := phases(run); !slices.Equal(got, tc.want) {
				t.Errorf("phases %q, want %q", got, tc.want)
			}
			if s := run.Steadies; len(s) != 1 || s[0].V.OK || !contains(s[0].V.Problems, "/readyz") {
				t.Errorf("steady states %+v", s)
			}
			if harmless := len(tc.want) > 1; harmless != (len(run.Probes) > 0) || harmless != (len(run.Ops) > 0) || len(run.Faults) > 0 || c.nodes[0].killed > 0 {
				t.Errorf("%d probes, %d operations, faults %q", len(run.Probes), len(run.Ops), faults(run))
			}
			for _, o := range run.Ops {
				if o.V.Purpose != "ready" {
					t.Errorf("traffic: %+v", o.V)
				}
			}
		})
	}
}
