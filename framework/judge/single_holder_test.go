package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// elected holds both leases throughout, and the audit log has it.
func elected(components ...string) *story {
	s := newStory()
	for i := range 8 {
		for _, c := range components {
			s.at(float64(4*i)).lease(c, "node-1_a", 100+i, float64(4*i))
			s.action("node-1", float64(4*i)).lastAction(func(a *record.Timed[record.Action]) { a.V.Component, a.V.Election = c, true })
		}
	}
	for _, n := range threeNodes {
		s.at(1).process(n, "kube-controller-manager", 7).process(n, "kube-scheduler", 8)
	}
	return s.heard(threeNodes...)
}

// heard has the audit logs of some nodes be read throughout.
func (s *story) heard(nodes ...string) *story {
	for t := range steps(0, 60, 1) {
		for _, n := range nodes {
			s.at(t)
			add(s, &s.run.Asked, record.Action{Via: n, Received: s.now, Completed: s.now})
		}
	}
	return s
}

func TestSingleHolder(t *testing.T) {
	both := []string{"kube-controller-manager", "kube-scheduler"}
	// elects has the controller manager on node-1 write a lease, too.
	elects := func(s *story, namespace, name string, code int) *story {
		for t := range steps(2, 30, 2) {
			s.action("node-1", t).lastAction(func(a *record.Timed[record.Action]) {
				a.V.Component, a.V.Election, a.V.Verb, a.V.Resource, a.V.Subresource = "kube-controller-manager", true, "update", "coordination.k8s.io/leases", ""
				a.V.Namespace, a.V.Name, a.V.Code = namespace, name, code
			})
		}
		return s
	}
	// named has the cluster's description name a further lease.
	named := func(s *story) *story {
		return s.change(func(r *record.Run) {
			r.Meta.Elections = map[string]map[string]time.Duration{"cluster-autoscaler": {"L": 15 * time.Second, "R": 10 * time.Second, "P": 2 * time.Second}}
		})
	}
	// late has a scheduler's lease without a holder from 2 s to 32 s.
	late := func() *story {
		s := elected("kube-controller-manager").at(2).lease("kube-scheduler", "", 90, 2)
		for i := range 6 {
			s.at(float64(32+4*i)).lease("kube-scheduler", "node-1_a", 130+i, float64(32+4*i))
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-LE-001", Judge: "single-holder"}, []ruling{
		{name: "a further lease", want: Pass, took: "3 of 3 components", story: func() *story { return named(elected(append(both, "cluster-autoscaler")...)) }},
		{name: "a further lease, handed over", want: Fail, says: `it was node-1_a, and "node-2_b" was seen at 33.000s`, story: func() *story {
			return named(elected(append(both, "cluster-autoscaler")...)).at(33).lease("cluster-autoscaler", "node-2_b", 130, 33)
		}},
		{name: "a further lease that no instance holds", want: Inconclusive, says: "no instance was seen to hold the lease of cluster-autoscaler", story: func() *story {
			return named(elected(both...))
		}},
		{name: "without a holder for longer than an election takes", want: Fail, says: "for 30s no lease named the active one", story: late},
		{name: "without a holder for as long as a coordinated election takes", want: Inconclusive, says: "whether the other instances of kube-scheduler stand by", story: func() *story {
			return late().change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Strategy = "OldestEmulationVersion"
				}
			})
		}},
		{name: "as it should be", story: func() *story { return elected(both...) }, want: Pass, took: "2 of 2 components",
			says: "kube-controller-manager by node-1_a and kube-scheduler by node-1_a"},
		{name: "no election", want: Fail, took: "0 of 2 components", story: func() *story { return elected("kube-scheduler") },
			says: "kube-controller-manager must have exactly one active instance: 3 instances act (on node-1, node-2, node-3), and for 1m0s no lease named the active one"},
		{name: "a lease of another name", want: Inconclusive, says: "the instances of kube-controller-manager elect the active one by the lease kube-system/kcm-blue", story: func() *story {
			return elects(elected("kube-scheduler"), "kube-system", "kcm-blue", 200)
		}},
		{name: "a lease in another namespace", want: Inconclusive, says: "by the lease infra/kube-controller-manager", story: func() *story {
			return elects(elected("kube-scheduler"), "infra", "kube-controller-manager", 200)
		}},
		{name: "a lease of another name, refused", want: Fail, says: "no lease named the active one", story: func() *story {
			return elects(elected("kube-scheduler"), "kube-system", "kcm-blue", 409)
		}},
		{name: "a lease of another name too", want: Pass, story: func() *story {
			return elects(elected(both...), "kube-system", "cloud-provider-extraction-migration", 200)
		}},
		{name: "empty lease", want: Fail, says: "3 instances act", story: func() *story {
			return elected("kube-scheduler").at(9).lease("kube-controller-manager", "", 5, 9)
		}},
		{name: "one instance and no election", want: Inconclusive, says: "does not show two instances", story: func() *story {
			return elected("kube-scheduler").at(3).process("node-2", "kube-controller-manager", 0).process("node-3", "kube-controller-manager", 0)
		}},
		{name: "two holders of one version", want: Fail, says: "version 107 of its lease was seen with node-1_a (through node-1) and with node-2_b", story: func() *story {
			return elected(both...).at(28).lease("kube-scheduler", "node-2_b", 107, 28)
		}},
		{name: "handed over", want: Fail, says: `it was node-1_a, and "node-2_b" was seen at 33.000s`, story: func() *story {
			return elected(both...).at(33).lease("kube-scheduler", "node-2_b", 130, 33)
		}},
		{name: "handed over as a node is changed in place", want: Pass, story: func() *story {
			return elected(both...).at(33).lease("kube-scheduler", "node-2_b", 130, 33).inPlace("", "reconfigure", "node-1", "", "", 30, 36, "kube-scheduler")
		}},
		{name: "handed over before a node is changed in place", want: Fail, says: `"node-2_b" was seen at 15.000s`, story: func() *story {
			return elected(both...).at(15).lease("kube-scheduler", "node-2_b", 130, 15).inPlace("", "reconfigure", "node-1", "", "", 30, 36, "kube-scheduler")
		}},
		{name: "handed over, and no node could be changed", want: Fail, says: `"node-2_b" was seen at 33.000s`, story: func() *story {
			return elected(both...).at(33).lease("kube-scheduler", "node-2_b", 130, 33).change(func(r *record.Run) {
				r.Changes = []record.Timed[record.NodeChange]{{At: sec(30), V: record.NodeChange{Phase: record.NodeFailed, Action: "upgrade", Called: sec(30), Missing: "Upgrader", Error: "needs the ability Upgrader"}}}
			})
		}},
		{name: "a standby acts", want: Fail, says: "node-1_a held it throughout, and the one on node-2 acted at 25.000s: create of pods/binding default/p", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 25)
		}},
		{name: "a standby acts, not long after it may have held the lease", want: Pass, story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 10)
		}},
		{name: "a standby acts, and is not watched for longer than it may after it held the lease", want: Inconclusive, says: "the one on node-2 acted at 6.000s, when it may have held the lease not long before", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 6).fault("kill", "kill", "node-3", "kube-apiserver", 12, 50)
		}},
		{name: "no standby acts for that long", want: Pass, story: func() *story {
			return elected(both...).fault("kill", "kill", "node-3", "kube-apiserver", 12, 50)
		}},
		{name: "the holder has it for long, and a standby acts", want: Fail, says: "acted at 12.000s", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 12).change(func(r *record.Run) {
				r.Meta.Started = time.Unix(1000, 0)
				for i := range r.Leases {
					r.Leases[i].V.Acquire = time.Unix(900, 0)
				}
			})
		}},
		{name: "the holder acts", want: Pass, story: func() *story { return elected(both...).probes("node-1", true, 1, 50).action("node-1", 25) }},
		{name: "a standby acts, what it asked had waited", want: Pass, story: func() *story { return elected(both...).action("node-2", 25) }},
		{name: "a standby is a candidate", want: Pass, story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 25).lastAction(func(a *record.Timed[record.Action]) {
				a.V.Verb, a.V.Resource, a.V.Subresource, a.V.Name = "update", "coordination.k8s.io/leasecandidates", "", "node-2_x"
			})
		}},
		{name: "a standby acts, through the balancer", want: Inconclusive, says: "whether the other instances of kube-scheduler stand by is not known: the source address of a request of one of them, or of the holder, is not a node's: create of pods/binding", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 25).lastAction(unowned)
		}},
		{name: "one acts through the balancer, once the lease is no longer watched", want: Pass, story: func() *story {
			return elected(both...).action("node-2", 40).lastAction(unowned)
		}},
		{name: "one is refused through the balancer", want: Pass, story: func() *story {
			return elected(both...).action("node-2", 25).lastAction(unowned).lastAction(func(a *record.Timed[record.Action]) { a.V.Code = 409 })
		}},
		{name: "the holder's log is missing", want: Inconclusive, says: "no audit log contains an action of node-1_a itself while it held the lease for 28s", story: func() *story {
			return elected(both...).action("node-2", 10).change(func(r *record.Run) {
				r.Actions = slices.DeleteFunc(r.Actions, func(a record.Timed[record.Action]) bool { return a.V.Node == "node-1" })
			})
		}},
		{name: "the log of a standby's API server is not read", want: Inconclusive, says: "the audit log of the API server on node-3 was not read throughout", story: func() *story {
			return elected(both...).change(func(r *record.Run) { r.Asked = nil }).heard("node-1", "node-2")
		}},
		{name: "the log of a standby's API server is read for some of the time", want: Inconclusive, says: "on node-3 was not read", story: func() *story {
			return elected(both...).change(func(r *record.Run) {
				r.Asked = slices.DeleteFunc(r.Asked, func(a record.Timed[record.Action]) bool { return a.V.Via == "node-3" && a.At > sec(10) })
			})
		}},
		{name: "a standby acts, and the log of another one's API server is not read", want: Fail, says: "the one on node-2 acted at 25.000s", story: func() *story {
			return elected(both...).change(func(r *record.Run) { r.Asked = nil }).probes("node-2", true, 1, 50).action("node-2", 25)
		}},
		{name: "no logs at all", want: Inconclusive, says: "no audit log contains an action of node-1_a itself while it held the lease", story: func() *story {
			return elected(both...).change(func(r *record.Run) { r.Actions = nil })
		}},
		{name: "standbys act, and there are no logs", want: Inconclusive, says: "no audit log", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 25).change(func(r *record.Run) { r.Actions = nil })
		}},
		{name: "standbys act, by the clock of an API server that is 3 s off", want: Inconclusive, says: "the clock of an API server does not agree with the harness's, by which the one on node-2 acted: create of pods/binding", story: func() *story {
			return elected(both...).probes("node-2", true, 1, 50).action("node-2", 25).lastAction(func(a *record.Timed[record.Action]) {
				a.V.Received, a.V.Completed = a.V.Received-record.Nanos(3*time.Second), a.V.Completed-record.Nanos(3*time.Second)
			})
		}},
		{name: "all clocks are off", want: Inconclusive, says: "no audit log", story: func() *story {
			return elected(both...).change(func(r *record.Run) {
				for i := range r.Actions {
					r.Actions[i].V.Received += sec(3)
					r.Actions[i].V.Completed += sec(3)
				}
			})
		}},
		{name: "handed over and back", want: Fail, says: "transitions 0, then 2", story: func() *story {
			s := elected(both...).at(33).lease("kube-scheduler", "node-1_a", 130, 33)
			s.run.Leases[len(s.run.Leases)-1].V.Transitions = 2
			return s
		}},
		{name: "handed over, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return elected(both...).at(33).lease("kube-scheduler", "node-2_b", 130, 33).change(func(r *record.Run) { r.Harness[30].V.Late = time.Second })
		}},
		{name: "a late reading of an old version", want: Pass, story: func() *story {
			return elected(both...).at(33).lease("kube-scheduler", "node-1_a", 103, 12)
		}},
		{name: "not yet held at first", want: Pass, story: func() *story { return elected(both...).at(0).lease("kube-scheduler", "", 99, 0) }},
		{name: "not renewed", want: Fail, says: "must renew its lease: node-1_a did not renew it for 18s, longer than the lease lasts (15s)", story: func() *story {
			return elected(both...).at(46).lease("kube-scheduler", "node-1_a", 107, 28)
		}},
		{name: "seen once", want: Inconclusive, says: "not seen to be renewed", story: func() *story {
			return elected("kube-controller-manager").at(30).lease("kube-scheduler", "node-1_a", 9, 30)
		}},
		{name: "no leases read", story: func() *story { return elected() }, want: Inconclusive, says: "no state of any lease"},
		{name: "another component", want: Fail, says: "cluster-autoscaler must have", story: func() *story {
			s := elected(both...).at(1).process("node-1", "cluster-autoscaler", 5).process("node-2", "cluster-autoscaler", 5)
			s.run.Meta.Checks = []record.Check{{Requirement: "HA-LE-001", Level: "MUST", Judge: "single-holder", Params: map[string]string{"components": "cluster-autoscaler"}}}
			return s
		}},
	})
}
