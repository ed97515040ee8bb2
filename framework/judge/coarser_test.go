package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// fused has the faults of a record hit one process that is all components.
func fused(s *story) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Faults {
			if r.Faults[i].V.Phase == record.FaultInjected {
				r.Faults[i].V.Group = []string{"etcd", "kube-apiserver", "kube-scheduler"}
			}
		}
	})
}

const hitAll = "Coarser fault: the kill of kube-apiserver on node-2 hit one process with etcd and kube-scheduler."

// TestCoarser: a guarantee that stands on a coarser fault passes and says so; one that is broken
// may be so because of it.
func TestCoarser(t *testing.T) {
	rule(t, removal, []ruling{
		{name: "pass", story: func() *story { return fused(removed()) }, want: Pass, took: "15s", says: hitAll},
		{name: "fail", story: func() *story { return fused(tooLate()) }, want: Inconclusive, says: "a fault hit more than the check is about, which may be why it failed. " + hitAll},
		{name: "fail on that fault alone", story: tooLate, want: Fail},
	})
	answered := record.Check{Requirement: "HA-QR-019", Judge: "requests-answered", Bound: "9s", Fault: "kill"}
	rule(t, answered, []ruling{
		{name: "that needs one component", story: func() *story { return fused(removed()) }, want: NotApplicable,
			says: "The requirement cannot be tested here: it needs a fault on kube-apiserver alone. " + hitAll},
	})
}

// TestCoarserLasting: what nothing can explain fails despite a coarser fault at the same time; a
// measured time does not.
func TestCoarserLasting(t *testing.T) {
	meanwhile := func(s *story) *story {
		n := len(s.run.Faults)
		return s.fault("coarse", "kill", "node-3", "kube-scheduler", 12, 20).change(func(r *record.Run) {
			r.Faults[n].V.Group = []string{"etcd", "kube-scheduler"}
		})
	}
	rule(t, record.Check{Requirement: "HA-QR-002", Judge: "isolated-member", Fault: "cut", Bound: "2E + M"}, []ruling{
		{name: "an acknowledged write", want: Fail, says: "must acknowledge no write", story: func() *story {
			return meanwhile(isolated().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1))
		}},
		{name: "no acknowledged write for too long", want: Inconclusive, says: "a fault hit more than the check is about", story: func() *story {
			s := leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30).failing("node-2", 10.1, 29).failing("node-1", 10.1, 20)
			return meanwhile(s.traffic("node-1", 19.99, 40).traffic("node-3", 10, 40))
		}},
	})
}

// TestCoarserElsewhere: a failure of a check that is about another fault, or about none, counts
// unless a coarser one was active at the same time.
func TestCoarserElsewhere(t *testing.T) {
	other := removal
	other.Fault = "other"
	with := func(from, to float64) func() *story {
		return func() *story {
			s := tooLate().change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.ID = "other"
				}
			})
			n := len(s.run.Faults)
			return s.fault("coarse", "kill", "node-3", "kube-scheduler", from, to).change(func(r *record.Run) {
				r.Faults[n].V.Group = []string{"etcd", "kube-scheduler"}
			})
		}
	}
	rule(t, other, []ruling{
		{name: "at the same time", story: with(12, 20), want: Inconclusive, says: "Coarser fault: the kill of kube-scheduler on node-3 hit one process with etcd."},
		{name: "before", story: with(1, 3), want: Fail},
	})
}
