package judge

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestOwnAPIServer(t *testing.T) {
	all := func() *story {
		s := newStory()
		for _, n := range []string{"node-1", "node-2", "node-3"} {
			s.asks("kube-scheduler", n, n, 1, 20).asks("kube-controller-manager", n, n, 1, 20)
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-UP-006", Judge: "own-apiserver"}, []ruling{
		{name: "each its own", want: Pass, says: "6 instances", story: all},
		{name: "one asks another node", want: Fail, says: "kube-scheduler on node-2 asked the API server on node-1", story: func() *story {
			return all().asks("kube-scheduler", "node-2", "node-1", 21, 22)
		}},
		{name: "one asks nothing", want: Inconclusive, says: "no request of kube-controller-manager on node-1", story: func() *story {
			s := all()
			kept := s.run.Asked[:0]
			for _, a := range s.run.Asked {
				if a.V.Node != "node-1" || a.V.Component != "kube-controller-manager" {
					kept = append(kept, a)
				}
			}
			s.run.Asked = kept
			return s
		}},
		{name: "one asks nothing once its node was changed", want: Inconclusive, says: "no request of kube-scheduler on node-2 after the change of its node", story: func() *story {
			s := all().upgraded("two", "node-2", release36, release37, 30)
			return s.asks("kube-controller-manager", "node-2", "node-2", 40, 50)
		}},
		{name: "the record ends soon after a node was changed", want: Pass, story: func() *story {
			return all().upgraded("two", "node-2", release36, release37, 50)
		}},
		{name: "all ask once a node was changed", want: Pass, story: func() *story {
			s := all().upgraded("two", "node-2", release36, release37, 30)
			return s.asks("kube-controller-manager", "node-2", "node-2", 40, 50).asks("kube-scheduler", "node-2", "node-2", 40, 50)
		}},
		{name: "one stays at the old version", want: Fail, says: "every component of the node must have the new version: kube-scheduler reported v1.36.3", story: func() *story {
			return all().upgraded("two", "node-2", release36, release37, 30).says("node-2", "kube-scheduler", release36, 45)
		}},
		{name: "one does not report its version", want: Inconclusive, says: "kube-scheduler on node-2 did not report its version", story: func() *story {
			s := all().upgraded("two", "node-2", release36, release37, 50)
			s.last().Outcome = record.Unknown
			return s
		}},
		{name: "no audit log", want: Inconclusive, says: "show no request", story: func() *story { return newStory() }},
		{name: "the active one goes through a balancer", want: Fail, says: "the lease of kube-scheduler was renewed through the API server on node-1 while the instance on node-2 held it", story: behind("node-1")},
		{name: "the active one has another address", want: Inconclusive, says: "no request of kube-scheduler on node-2", story: behind("node-2")},
		{name: "an unknown address while the lease passes on", want: Inconclusive, story: func() *story {
			s := behind("node-1")()
			for i := range s.run.Leases {
				if s.run.Leases[i].At >= sec(12) {
					s.run.Leases[i].V.Holder, s.run.Leases[i].V.HolderNode = "node-1_b", "node-1"
				}
			}
			s.run.Actions = slices.DeleteFunc(s.run.Actions, func(a record.Timed[record.Action]) bool { return a.V.Received < sec(9) })
			return s
		}},
		{name: "an unknown address by another clock", want: Inconclusive, story: func() *story {
			return behind("node-1")().change(func(r *record.Run) {
				for i := range r.Actions {
					r.Actions[i].At += sec(4)
				}
			})
		}},
	})
}

// behind has the scheduler on node-2 renew its lease through an API server, from an address that is
// not a node's. The other instances talk to their own.
func behind(via string) func() *story {
	return func() *story {
		s := newStory()
		for _, n := range threeNodes {
			if s.asks("kube-controller-manager", n, n, 1, 20); n != "node-2" {
				s.asks("kube-scheduler", n, n, 1, 20)
			}
		}
		for i := range 10 {
			t := float64(1 + 2*i)
			s.at(t+0.1).lease("kube-scheduler", "node-2_a", 100+i, t)
		}
		s.renews("", 9, 14)
		for i := range s.run.Actions {
			s.run.Actions[i].V.Via = via
		}
		return s
	}
}
