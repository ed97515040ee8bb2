package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// autoscaled has a further lease, of cluster-autoscaler, that node-1 renews until it is isolated at
// 10 s, and node-2 from some time on (0: no instance). Then node-2 is isolated at 40 s, for less
// than its renew deadline.
func autoscaled(then float64) *story {
	s := newStory().fault("first", "isolate", "node-1", "", 10, 38).fault("second", "isolate", "node-2", "", 40, 45)
	s.run.Meta.Elections = map[string]map[string]time.Duration{
		"kube-scheduler":     {"L": 8 * time.Second, "R": 6 * time.Second, "P": time.Second},
		"cluster-autoscaler": {"L": 15 * time.Second, "R": 10 * time.Second, "P": 2 * time.Second},
	}
	for i := 0; i <= 58; i += 2 {
		switch t := float64(i); {
		case t < 10:
			s.at(t).lease("cluster-autoscaler", "node-1_a", 100+i, t)
		case then == 0 || t < then || t > 40 && t < 46:
			l := s.run.Leases[len(s.run.Leases)-1].V
			s.at(t)
			add(s, &s.run.Leases, l)
		default:
			s.at(t).lease("cluster-autoscaler", "node-2_b", 200+i, t)
		}
	}
	return s
}

func TestFurtherLeases(t *testing.T) {
	held := func(s *story, change func(*record.Lease)) *story {
		return s.change(func(r *record.Run) {
			for i := range r.Leases {
				change(&r.Leases[i].V)
			}
		})
	}
	check := record.Check{Requirement: "HA-LE-005", Judge: "active-again", Fault: "first", Bound: "L + 4.4P + M", Params: map[string]string{"component": "further", "faults": "second"}}
	rule(t, check, []ruling{
		{name: "taken over", story: func() *story { return autoscaled(26) }, want: Pass, took: "16s",
			says: "Each additional lease was renewed throughout: that of cluster-autoscaler with pauses of 16s at most, within 25.8s (L + 4.4P + M, L = 15s, M = 2s, P = 2s), and its holder's node was hit 2 times."},
		{name: "too late", story: func() *story { return autoscaled(38) }, want: Fail,
			says: "The lease of cluster-autoscaler must not be without a renewal for longer than 25.8s (L + 4.4P + M, L = 15s, M = 2s, P = 2s): under the isolation of node-1 it was for 26s; node-1_a on node-1 had held it."},
		{name: "never", story: func() *story { return autoscaled(0) }, want: Fail},
		{name: "by its own times", want: Pass, story: func() *story {
			return autoscaled(38).change(func(r *record.Run) { r.Meta.Elections["cluster-autoscaler"]["L"] = 20 * time.Second })
		}},
		{name: "none named", want: NotApplicable, says: "names no additional lease", story: func() *story {
			return autoscaled(26).change(func(r *record.Run) { delete(r.Meta.Elections, "cluster-autoscaler") })
		}},
		{name: "not looked at", want: Inconclusive, says: "no state of the lease of cluster-autoscaler", story: func() *story {
			return autoscaled(26).change(func(r *record.Run) { r.Leases = nil })
		}},
		{name: "never held", want: Inconclusive, says: "does not show who held the lease of cluster-autoscaler before", story: func() *story {
			return held(autoscaled(26), func(l *record.Lease) { *l = record.Lease{Name: l.Name, Via: l.Via} })
		}},
		{name: "in a pod on a control-plane node", want: Pass, story: func() *story {
			return held(autoscaled(26), func(l *record.Lease) { l.Holder = "cluster-autoscaler-" + l.HolderNode })
		}},
		{name: "in a pod elsewhere", want: NotApplicable, says: "no fault hit a control-plane node on which the lease of cluster-autoscaler was held", story: func() *story {
			return held(autoscaled(26), func(l *record.Lease) { l.Holder, l.HolderNode = "pod-"+l.Holder, "worker-1" })
		}},
		{name: "in a pod elsewhere, too late", want: Fail, story: func() *story {
			return held(autoscaled(0), func(l *record.Lease) { l.Holder, l.HolderNode = "pod-"+l.Holder, "worker-1" })
		}},
		{name: "its node never hit, as in a larger cluster", want: NotApplicable, says: "no fault hit a control-plane node", story: func() *story {
			return held(autoscaled(26), func(l *record.Lease) { l.Holder, l.HolderNode = "node-3_c", "node-3" })
		}},
		{name: "another duration than described", want: Inconclusive, says: "the lease of cluster-autoscaler lasts 1m0s, and the description of the cluster says 15s", story: func() *story {
			return held(autoscaled(26), func(l *record.Lease) { l.Duration = 60 })
		}},
		{name: "written by others, and not renewed", want: Fail, says: "must not be without a renewal", story: func() *story {
			n := 0
			return held(autoscaled(0), func(l *record.Lease) {
				if n++; n > 5 {
					l.Revision = fmt.Sprint(200 + n)
				}
			})
		}},
		{name: "two holders", want: Fail, says: "must never have two holders", story: func() *story {
			return autoscaled(26).at(30).lease("cluster-autoscaler", "node-3_c", 230, 30)
		}},
	})
}

// TestFurtherLeaseAndOneActor: the actions of components with further leases are not recorded,
// and do not matter to the verdict on the others.
func TestFurtherLeaseAndOneActor(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-INV-008", Judge: "one-actor"}, []ruling{
		{name: "named", want: Pass, story: func() *story {
			s := autoscaled(26).renews("node-3", 0, 58)
			return s.action("node-3", 30)
		}},
	})
}
