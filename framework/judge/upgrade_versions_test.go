package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestEmulated has nodes upgraded that still emulate the older version, and emulate their own only
// once they are reconfigured.
func TestEmulated(t *testing.T) {
	reports := func(s *story, node, version string, t float64) {
		o := during(t, t+0.01)
		o.Type, o.Entrance, o.Key, o.Value, o.Found, o.Purpose = record.OpGet, node, "kube-apiserver", version, true, "emulated-version"
		s.op(o)
	}
	reconfigured := func(change func(*story)) func() *story {
		return func() *story {
			s := fleetOf(release36)
			for i, n := range threeNodes {
				s.upgraded("up-"+n, n, release36, release37, float64(1+8*i))
				reports(s, n, "v1.36", float64(8+8*i))
			}
			for i, n := range threeNodes {
				s.inPlace("native-"+n, "reconfigure", n, "", "", float64(26+8*i), float64(32+8*i), inOrder...)
				reports(s, n, "v1.37", float64(33+8*i))
			}
			for i := range s.run.Steps {
				s.run.Steps[i].V.Version = release37
			}
			for i := range s.run.Changes {
				s.run.Changes[i].V.Restarts = inOrder // of reconfigurations
			}
			change(s)
			return s.at(59)
		}
	}
	asIs := func(*story) {}
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "changed-one-by-one", Params: map[string]string{"changes": "up-node-1, up-node-2, up-node-3", "complete": "true", "emulated": "v1.36"}}, []ruling{
		{name: "each emulates the older version", want: Pass, took: "3 changes", story: reconfigured(asIs)},
		{name: "one emulates the newer version from the start", want: Fail, says: "must emulate v1.36: it reported that it emulates v1.37", story: reconfigured(func(s *story) { reports(s, "node-2", "v1.37", 20) })},
		{name: "one does not report it", want: Inconclusive, says: "the API server on node-2 did not report which version it emulates", story: reconfigured(func(s *story) {
			s.run.Ops = slices.DeleteFunc(s.run.Ops, func(o record.Timed[record.Op]) bool {
				return o.V.Purpose == "emulated-version" && o.V.Entrance == "node-2" && o.V.Value == "v1.36"
			})
		})},
	})
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "changed-one-by-one", Params: map[string]string{"changes": "native-node-1, native-node-2, native-node-3", "emulated": "v1.37"}}, []ruling{
		{name: "each emulates its own version in the end", want: Pass, took: "3 changes", story: reconfigured(asIs)},
		{name: "one emulates the older version for ever", want: Fail, says: "After reconfigure of node-3 the API server of the node must emulate v1.37", story: reconfigured(func(s *story) { reports(s, "node-3", "v1.36", 55) })},
	})
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "changed-one-by-one", Params: map[string]string{"complete": "true"}}, []ruling{
		{name: "any version may be emulated", want: Pass, took: "3 changes", story: upgradedAll},
	})
}

// TestOlderLeads has a node upgraded from 10 s to 16 s: its API server is of the newer version from
// 12 s on.
func TestOlderLeads(t *testing.T) {
	// led has an instance of a component hold its lease, with a renewal every 2 s.
	led := func(s *story, component, holder string, rev int, from, to float64) int {
		for t := range steps(from, to, 2) {
			rev++
			s.at(t).lease(component, holder, rev, t)
		}
		return rev
	}
	// stood has the last state of a lease seen again.
	stood := func(s *story, component, holder string, rev int, renew, from, to float64) {
		for t := range steps(from, to, 2) {
			s.at(t).lease(component, holder, rev, renew)
		}
	}
	upgraded := func(change func(*story)) func() *story {
		return func() *story {
			s := fleetOf(release36)
			for _, n := range threeNodes {
				s.asks("kube-scheduler", n, n, 1, 58).asks("kube-controller-manager", n, n, 1, 58)
			}
			s.upgraded("one", "node-1", release36, release37, 10)
			change(s)
			return s.at(59)
		}
	}
	scheduler := upgraded(func(s *story) {
		led(s, "kube-scheduler", "node-2_a", 0, 2, 40)
		s.action("node-2", 20)
	})
	both := func() *story {
		s := scheduler()
		led(s, "kube-controller-manager", "node-3_a", 0, 2, 40)
		return s.at(59)
	}
	still := func(s *story) {
		rev := led(s, "kube-scheduler", "node-2_a", 0, 2, 16)
		stood(s, "kube-scheduler", "node-2_a", rev, 14, 16, 46)
	}
	rule(t, record.Check{Requirement: "HA-UP-006", Judge: "own-apiserver", Params: map[string]string{"older": "1"}}, []ruling{
		{name: "the scheduler", want: Pass, story: scheduler},
		{name: "both", want: Pass, story: both},
		{name: "the instance on the upgraded node", want: Inconclusive, says: "0 elected components had an active instance of an older version", story: upgraded(func(s *story) {
			led(s, "kube-scheduler", "node-1_a", 0, 2, 40)
		})},
		{name: "it is active for too short", want: Inconclusive, says: "0 elected components", story: upgraded(func(s *story) {
			rev := led(s, "kube-scheduler", "node-2_a", 0, 2, 16)
			led(s, "kube-scheduler", "node-1_b", rev, 30, 50)
		})},
		{name: "its lease was seen once", want: Inconclusive, says: "0 elected components", story: upgraded(func(s *story) {
			rev := led(s, "kube-scheduler", "node-2_a", 0, 2, 16)
			stood(s, "kube-scheduler", "node-2_a", rev, 14, 16, 24)
		})},
		{name: "nothing was upgraded", want: Inconclusive, says: "0 elected components", story: func() *story {
			return scheduler().change(func(r *record.Run) { r.Steps, r.Changes = nil, nil })
		}},
		{name: "the lease stands still", want: Fail, says: "kube-scheduler v1.36.3 on node-2 held its lease while v1.37.1 on node-1 served, and from 14.000s on the lease was neither renewed nor taken over for 30s", story: upgraded(still)},
		{name: "the lease stands still, as in a coordinated election", want: Inconclusive, says: "0 elected components", story: upgraded(func(s *story) {
			still(s)
			s.change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Strategy = "OldestEmulationVersion"
				}
			})
		})},
		{name: "the lease stands still after a fault", want: Inconclusive, says: "0 elected components", story: upgraded(func(s *story) {
			still(s)
			s.fault("kill", "kill", "node-3", "etcd", 18, 40)
		})},
		{name: "another one takes over in time", want: Pass, story: upgraded(func(s *story) {
			rev := led(s, "kube-scheduler", "node-2_a", 0, 2, 16)
			stood(s, "kube-scheduler", "node-2_a", rev, 14, 16, 34)
			led(s, "kube-scheduler", "node-3_b", rev, 36, 56)
		})},
		{name: "a reading that comes late", want: Pass, story: upgraded(func(s *story) {
			led(s, "kube-scheduler", "node-2_a", 0, 2, 50)
			s.at(50.5).lease("kube-scheduler", "node-2_a", 7, 14)
		})},
	})
	rule(t, record.Check{Requirement: "HA-UP-006", Judge: "own-apiserver", Params: map[string]string{"older": "2"}}, []ruling{
		{name: "both of two", want: Pass, story: both},
		{name: "one of two", want: Inconclusive, says: "1 elected component had an active instance of an older version", story: scheduler},
	})
	rule(t, record.Check{Requirement: "HA-UP-006", Judge: "own-apiserver"}, []ruling{
		{name: "none is required", want: Pass, story: upgraded(func(*story) {})},
		{name: "the lease stands still, none is required", want: Fail, says: "must work with an API server of a newer version in the cluster", story: upgraded(still)},
	})
}

// TestObjectsBetweenThreeVersions has two nodes upgraded twice: the oldest version never serves
// beside the newest, and only what it wrote is left.
func TestObjectsBetweenThreeVersions(t *testing.T) {
	// passed is which objects two API servers passed to each other between the first upgrade and
	// the second, and after it, and how many objects of the oldest version were read in the end.
	passed := func(first, second, last int, change func(*record.Op)) func() *story {
		return func() *story {
			s, at := newStory(), 1.0
			ask := func(kind record.OpType, through, key string) {
				o := during(at, at+0.01)
				at += 0.02
				o.Client, o.Type, o.Entrance, o.Key, o.Found, o.Purpose = "mixed", kind, through, key, true, "mixed-object"
				if change != nil {
					change(&o)
				}
				s.op(o)
			}
			versions := func(one, two string) {
				s.says("node-1", "kube-apiserver", one, at).says("node-2", "kube-apiserver", two, at+0.02)
				at += 0.1
			}
			pass := func(round string, n int) {
				for i := range n {
					for _, pair := range [][2]string{{"node-1", "node-2"}, {"node-2", "node-1"}} {
						key := fmt.Sprintf("Lease/%s-%d-%s", round, i, pair[0])
						ask(record.OpCreate, pair[0], key)
						ask(record.OpGet, pair[1], key)
					}
				}
			}
			versions(release35, release35)
			for i := range 12 {
				ask(record.OpCreate, "node-2", fmt.Sprintf("Secret/lasting-%d", i))
			}
			versions(release36, release35)
			pass("first", first)
			versions(release36, release36)
			versions(release37, release36)
			pass("second", second)
			versions(release37, release37)
			for i := range last {
				ask(record.OpGet, "node-1", fmt.Sprintf("Secret/lasting-%d", i))
			}
			return s
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-005", Judge: "objects-between-versions"}, []ruling{
		{name: "two upgrades", want: Pass, took: "52 reads", says: "12 from v1.35.8 to v1.37.1", story: passed(10, 10, 12, nil)},
		{name: "nothing of the oldest version is read in the end", want: Pass, took: "40 reads", story: passed(10, 10, 0, nil)},
		{name: "too little of the oldest version is read in the end", want: Inconclusive, says: "3 reads went from v1.35.8 to v1.37.1, and 10 are required", story: passed(10, 10, 3, nil)},
		{name: "an object of the oldest version is lost", want: Fail, says: "Secret/lasting-7, written last by v1.35.8, through node-1 (v1.37.1): it was not found", story: passed(10, 10, 12, func(o *record.Op) {
			if o.Type == record.OpGet && o.Key == "Secret/lasting-7" {
				o.Found = false
			}
		})},
		{name: "no way back in the first upgrade", want: Inconclusive, says: "10 reads went from v1.35.8 to v1.36.3 and 0 the other way, and 10 each are required", story: passed(10, 10, 12, func(o *record.Op) {
			if o.Type == record.OpGet && o.Entrance == "node-2" && strings.HasPrefix(o.Key, "Lease/first-") {
				o.Outcome, o.Found = record.Unknown, false
			}
		})},
		{name: "nothing is passed during the first upgrade", want: Inconclusive, says: "0 reads went from v1.35.8 to v1.36.3 and 0 the other way", story: passed(0, 10, 12, nil)},
		{name: "nothing is passed during the second upgrade", want: Inconclusive, says: "0 reads went from v1.36.3 to v1.37.1 and 0 the other way", story: passed(10, 0, 12, nil)},
	})
	rule(t, record.Check{Requirement: "HA-UP-005", Judge: "objects-between-versions"}, []ruling{
		{name: "never two versions at the same time", want: Inconclusive, says: "no API servers of two versions were seen to serve at the same time", story: func() *story {
			return passed(0, 0, 12, nil)().change(func(r *record.Run) {
				r.Ops = slices.DeleteFunc(r.Ops, func(o record.Timed[record.Op]) bool { return o.V.Purpose == "version" && o.V.Entrance == "node-1" })
				for i := range r.Ops {
					if r.Ops[i].V.Purpose != "version" {
						r.Ops[i].V.Entrance = "node-2"
					}
				}
			})
		}},
	})
}
