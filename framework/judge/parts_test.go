package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestParts: a requirement does not pass by its other checks if one of them cannot be judged on this
// cluster, for whatever reason. It does if that check is about something that a cluster need not have.
func TestParts(t *testing.T) {
	lacking := func(id string, f *record.Fault) {
		f.ID, f.Phase, f.Error, f.Missing = id, record.FaultFailed, "needs the ability Freezer", "Freezer"
	}
	other := removal
	other.Fault = "cold"
	further := record.Check{Judge: "active-again", Fault: "first", Bound: "L + 4.4P + M", Params: map[string]string{"component": "further", "faults": "second"}}
	supervised := func() *story {
		o := during(2, 2.1)
		o.Purpose, o.Key = "lock", "locks/kube-controller-manager"
		return newStory().op(o)
	}
	for _, tt := range []struct {
		name  string
		story func() *story
		part  record.Check // the one that is not applicable
		want  Verdict
	}{
		{"it needs access that the provider does not give", func() *story {
			return removed().change(func(r *record.Run) { r.Meta.NoAccess = []record.Access{record.AuditLogs} })
		}, record.Check{Judge: "single-holder"}, NotApplicable},
		{"it needs such access in part", func() *story {
			return backAgain(16, 18, 20).change(func(r *record.Run) { r.Processes, r.Meta.NoAccess = nil, []record.Access{record.Processes} })
		}, record.Check{Judge: "rejoins", Fault: "off", Bound: "10s + 2E + M"}, NotApplicable},
		{"it needs a fault on one component alone", func() *story { return fused(removed()) },
			record.Check{Judge: "requests-answered", Bound: "9s", Fault: "kill"}, NotApplicable},
		{"it needs a fault that the cluster cannot have", func() *story {
			return removed().change(func(r *record.Run) {
				late := record.Timed[record.Fault]{At: r.Faults[1].At + 1}
				lacking("cold", &late.V)
				r.Faults = append(r.Faults, late)
			})
		}, other, NotApplicable},
		{"it needs a fault after one that the cluster cannot have", func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = r.Faults[:1]
				lacking("cold", &r.Faults[0].V)
			})
		}, removal, NotApplicable},
		{"it needs a change of nodes that the cluster cannot have", func() *story {
			return removed().change(func(r *record.Run) {
				r.Nodes = append(r.Nodes, record.Timed[record.NodeChange]{V: record.NodeChange{Phase: record.NodeFailed, Error: "needs the ability Scaler", Missing: "Scaler"}})
			})
		}, record.Check{Judge: "members-follow"}, NotApplicable},
		{"it needs an entrance for clients", removed,
			record.Check{Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"entrance": "virtual-ip"}}, NotApplicable},
		{"it needs a load balancer", func() *story {
			return removed().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}, record.Check{Judge: "returns-ready", Fault: "kill"}, NotApplicable},
		{"it needs a load balancer that reports what it uses", func() *story {
			return removed().change(func(r *record.Run) {
				r.Backends = append(r.Backends, record.Timed[record.Backend]{V: record.Backend{Missing: "it has no statistics"}})
			})
		}, record.Check{Judge: "backend-returned", Fault: "kill", Bound: "M"}, NotApplicable},
		{"it needs an API server beside each member", func() *story { return external(isolated(), "node-2") },
			record.Check{Judge: "isolated-member", Fault: "cut", Bound: "2E + M"}, NotApplicable},
		{"it needs two API servers", func() *story {
			return newStory().change(func(r *record.Run) { r.Meta.Nodes = r.Meta.Nodes[:1] })
		}, record.Check{Judge: "cross-read"}, NotApplicable},
		{"it needs a setting that nothing shows", func() *story {
			return newStory().change(func(r *record.Run) { r.Meta.Assumed = []string{"E"} })
		}, record.Check{Judge: "time-settings", Params: map[string]string{"E": "5s"}}, NotApplicable},
		{"it needs a fault on the holder of a further lease", func() *story {
			return autoscaled(26).change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Holder, r.Leases[i].V.HolderNode = "pod-"+r.Leases[i].V.Holder, "worker-1"
				}
			})
		}, further, NotApplicable},
		{"its own judge says so", func() *story { return newStory() }, record.Check{Judge: "other"}, NotApplicable},

		{"the cluster has no further lease", func() *story {
			return autoscaled(26).change(func(r *record.Run) { delete(r.Meta.Elections, "cluster-autoscaler") })
		}, further, Pass},
		{"a component without a lease has no holder that works", supervised, record.Check{Judge: "holder-works", Bound: "12s"}, Pass},
		{"a component without a lease has no holder", supervised,
			record.Check{Judge: "single-holder", Params: map[string]string{"components": "kube-controller-manager"}}, Pass},
	} {
		t.Run(tt.name, func(t *testing.T) {
			away := Judge{Doc: Doc{Name: "other"}, Evaluate: func(*Case) Finding { return Finding{Verdict: NotApplicable, Sentence: "no scheduler here"} }}
			for verdict, want := range map[Verdict]Verdict{Pass: tt.want, Inconclusive: Inconclusive, Fail: Fail} {
				tt.part.Requirement, tt.part.Level = "OWN-1", "MUST"
				s := tt.story()
				s.run.Meta.Checks = []record.Check{
					{Requirement: "OWN-1", Level: "MUST", Judge: "own"}, tt.part,
					{Requirement: "OWN-2", Level: "MUST", Judge: "own"},
				}
				r := Evaluate(s.run, says(Finding{Verdict: verdict, Sentence: "what the rest shows"}), away)
				if r[1].Verdict != NotApplicable || r[2].Verdict != verdict {
					t.Fatalf("the part is %s: %s; another requirement is %s", r[1].Verdict, r[1].Sentence, r[2].Verdict)
				}
				if r[0].Verdict != want || want == NotApplicable && !strings.Contains(r[0].Sentence, "Not every part of the requirement can be tested here. This part: ") {
					t.Errorf("the rest is %s, so the requirement is %s (want %s): %s", verdict, r[0].Verdict, want, r[0].Sentence)
				}
			}
		})
	}
}
