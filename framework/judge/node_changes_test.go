package judge

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// changed is a change of nodes.
func (s *story) changed(name string, phase record.ChangePhase, node, address string, called, effect float64) *story {
	s.at(effect)
	return add(s, &s.run.Nodes, record.NodeChange{Name: name, Phase: phase, Called: sec(called), Effect: sec(effect),
		Node: record.Node{Name: node, Address: address, Components: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}}})
}

var (
	four       = []string{"10.77.0.11", "10.77.0.12", "10.77.0.13", "10.77.0.14"}
	replaced   = []string{"10.77.0.11", "10.77.0.13", "10.77.0.14"}
	withFour   = func(s *story, t float64) *story { return s.set(t, int(100+10*t), four...) }
	withThree  = func(s *story, t float64) *story { return s.set(t, int(100+10*t), allThree...) }
	withoutTwo = func(s *story, t float64) *story { return s.set(t, int(100+10*t), without2...) }
)

// grown is a record in which node-4 joins at 10 s and is listed from when on.
func grown(when float64) *story {
	s := newStory()
	for t := range 10 {
		withThree(s, float64(t))
	}
	s.changed("fourth", record.NodeAdded, "node-4", "10.77.0.14", 8, 10)
	for t := 10.0; t < 60; t++ {
		if t < when {
			withThree(s, t)
		} else {
			withFour(s, t)
		}
	}
	return s
}

// replacing is a record in which node-2 is lost at 10 s, and leaves the list at gone,
// and node-4 joins at 40 s.
func replacing(gone float64) *story {
	s := newStory()
	for t := range 10 {
		withThree(s, float64(t))
	}
	s.changed("old", record.NodeLost, "node-2", "10.77.0.12", 9, 10)
	for t := 10.0; t < 40; t++ {
		if t < gone {
			withThree(s, t)
		} else {
			withoutTwo(s, t)
		}
	}
	s.changed("new", record.NodeAdded, "node-4", "10.77.0.14", 39, 40)
	for t := 40.0; t < 60; t++ {
		s.set(t, int(100+10*t), replaced...)
	}
	return s
}

func TestEndpointsFollow(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-EP-008", Judge: "endpoints-follow", Bound: "T + I + M"}, []ruling{
		{name: "listed at once", want: Pass, says: "after 0s at most (node-4 (10.77.0.14) was added)", story: func() *story { return grown(9) }},
		{name: "listed in time", want: Pass, took: "20s", story: func() *story { return grown(30) }},
		{name: "listed late", want: Fail, took: "30s", says: "after node-4 (10.77.0.14) was added: endpoints through node-1 did after 30s", story: func() *story { return grown(40) }},
		{name: "listed late, and a new leader", want: Fail, took: "30s", story: func() *story { return newLeaders(grown(40), 13) }},
		{name: "never listed", want: Fail, took: "49s", says: "still held [10.77.0.11 10.77.0.12 10.77.0.13] after 49s", story: func() *story { return grown(100) }},
		{name: "not watched for long enough", want: Inconclusive, says: "less than 27s", story: func() *story {
			return grown(100).change(func(r *record.Run) {
				r.EndAt = sec(30)
				r.Endpoints = r.Endpoints[:30*2*len(facts.Sources)]
			})
		}},
		{name: "listed, and left again", want: Fail, says: "still held [10.77.0.11 10.77.0.12 10.77.0.13]", story: func() *story {
			s := grown(11)
			return withThree(s, 59.5)
		}},
		{name: "another address too many", want: Fail, says: "was removed", story: func() *story {
			s := newStory().changed("", record.NodeRemoved, "node-2", "10.77.0.12", 4, 5)
			for t := range 60 {
				withThree(s, float64(t))
			}
			return s
		}},
		{name: "a removed node's own API server does not count", want: Pass, story: func() *story {
			s := newStory().changed("", record.NodeRemoved, "node-3", "10.77.0.13", 4, 5)
			for t := range 60 {
				s.at(float64(t)).endpoints("node-1", "10.77.0.11", "10.77.0.12").endpoints("node-3", allThree...)
			}
			return s
		}},
		{name: "the next change came at once", want: Pass, says: "after each change of nodes (1)", story: func() *story {
			return grown(13).change(func(r *record.Run) {
				r.Nodes = append([]record.Timed[record.NodeChange]{{At: sec(5), V: record.NodeChange{Phase: record.NodeRemoved, Called: sec(4), Effect: sec(5),
					Node: record.Node{Name: "node-9", Address: "10.77.0.19"}}}}, r.Nodes...)
				for i := range r.Endpoints {
					if r.Endpoints[i].At <= sec(8) {
						r.Endpoints[i].V.Addresses = four
					}
				}
			})
		}},
		{name: "a fault came before the bound", want: Inconclusive, story: func() *story {
			return grown(100).fault("kill", "kill", "node-1", "kube-apiserver", 20, 50)
		}},
		{name: "an API server is down at the change", want: Pass, says: "held exactly the existing API servers", story: func() *story {
			return grown(30).fault("kill", "kill", "node-2", "kube-apiserver", 1, 55).change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Addresses = slices.DeleteFunc(slices.Clone(r.Endpoints[i].V.Addresses), func(a string) bool { return a == "10.77.0.12" })
				}
			})
		}},
		{name: "could not be changed", want: Inconclusive, says: "no quorum", story: func() *story {
			return newStory().change(func(r *record.Run) {
				r.Nodes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Phase: record.NodeFailed, Error: "no quorum"}}}
			})
		}},
		{name: "cannot be changed", want: NotApplicable, says: "no Scaler", story: func() *story {
			return newStory().change(func(r *record.Run) {
				r.Nodes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Phase: record.NodeFailed, Missing: "Scaler", Error: "no Scaler"}}}
			})
		}},
		{name: "no change", want: Inconclusive, says: "no change of nodes", story: func() *story { return newStory() }},
		{name: "slices not read", want: Inconclusive, says: "no state of the endpointslice", story: func() *story {
			return grown(11).change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Source = "endpoints"
				}
			})
		}},
		{name: "harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return grown(40).change(func(r *record.Run) { r.Harness[30].V.Late = 10e9 })
		}},
	})
	rule(t, record.Check{Requirement: "HA-EP-009", Judge: "endpoints-follow", Bound: "T + I + M", Params: map[string]string{"changes": "old, new"}}, []ruling{
		{name: "replaced", want: Pass, took: "15s", says: "(node-2 (10.77.0.12) was lost)", story: func() *story { return replacing(25) }},
		{name: "the old one reclaimed late", want: Fail, took: "28s", story: func() *story { return replacing(38) }},
		{name: "a new leader renewed its lease", want: Pass, took: "28s", says: "within 27s (T + I + M, I = 10s, M = 2s, T = 15s) and E of the election of another etcd leader", story: func() *story {
			return newLeaders(replacing(38), 13)
		}},
		{name: "no such change", want: Inconclusive, says: `no change of nodes "old"`, story: func() *story { return grown(11) }},
		{name: "another change failed", want: Pass, took: "15s", story: func() *story { return replacing(25).change(alsoFailed("later")) }},
		{name: "the old one reclaimed late, and another change failed", want: Fail, took: "28s", story: func() *story { return replacing(38).change(alsoFailed("later")) }},
		{name: "one of them failed, too", want: Inconclusive, says: "no quorum", story: func() *story { return grown(11).change(alsoFailed("old")) }},
	})
}

// TestImpossible: changes of nodes that were not made, since the cluster lacks an ability for
// something else in the experiment, are not applicable.
func TestImpossible(t *testing.T) {
	impossible := record.Fault{ID: "disk", Phase: record.FaultFailed, Missing: "DiskFaulter", Error: "needs the ability DiskFaulter"}
	upgrade := record.NodeChange{Name: "newer", Action: "upgrade", Phase: record.NodeFailed, Missing: "Upgrader", Error: "needs the ability Upgrader"}
	failed := record.NodeChange{Name: "newer", Action: "upgrade", Phase: record.NodeFailed, Error: "no such version"}
	for _, check := range []record.Check{
		{Requirement: "HA-MB-003", Judge: "members-follow", Params: map[string]string{"changes": "fourth"}},
		{Requirement: "HA-EP-008", Judge: "endpoints-follow", Bound: "T + I + M"},
		{Requirement: "HA-UP-001", Judge: "changed-one-by-one"},
		{Requirement: "HA-UP-004", Judge: "available-through-changes", Bound: "M"},
		{Requirement: "HA-CL-002", Judge: "learns-addresses", Bound: "M", Fault: "k1"},
	} {
		t.Run(check.Judge, func(t *testing.T) {
			rule(t, check, []ruling{
				{name: "a fault", want: NotApplicable, says: `since this cluster does not support the fault "disk" of the same scenario: needs the ability DiskFaulter`, story: func() *story {
					return newStory().change(func(r *record.Run) { r.Faults = []record.Timed[record.Fault]{{V: impossible}} })
				}},
				{name: "an upgrade", want: NotApplicable, says: "needs the ability Upgrader", story: func() *story {
					return newStory().change(func(r *record.Run) { r.Changes = []record.Timed[record.NodeChange]{{V: upgrade}} })
				}},
				{name: "an upgrade failed", want: Inconclusive, story: func() *story {
					return newStory().change(func(r *record.Run) { r.Changes = []record.Timed[record.NodeChange]{{V: failed}} })
				}},
			})
		})
	}
	rule(t, record.Check{Requirement: "HA-MB-003", Judge: "members-follow"}, []ruling{
		{name: "a fault after the changes", want: Pass, took: "2 changes", story: func() *story {
			s := joinedAndLeft()
			return add(s, &s.run.Faults, impossible)
		}},
	})
}

// lonely is a record in which all API servers but a fourth one are killed at 30 s, and a failover
// client sends requests the whole time.
func lonely(answered bool) *story {
	s := grown(11)
	ids := []string{"k1", "k2", "k3"}
	for i, n := range []string{"node-1", "node-2", "node-3"} {
		s.fault(ids[i], "kill", n, "kube-apiserver", 30+float64(i), 50)
	}
	for t := 20.0; t < 55; t++ {
		op := during(t, t+0.5)
		op.Type, op.Entrance, op.Client, op.Purpose, op.Address = record.OpGet, "failover", "failover", "failover", "10.77.0.11:6443"
		if t > 30 && t < 50 {
			op.Address = "10.77.0.14:6443"
			if !answered {
				op.Outcome, op.Error = record.Refused, "connection refused"
			}
		}
		s.op(op)
		s.at(t + 0.5)
		add(s, &s.run.Probes, record.Probe{Entrance: "node-4", Kind: record.ProbeQuorumRead, OK: true, Start: sec(t), End: sec(t + 0.5)})
	}
	return s
}

// joined adds a second client to lonely, whose requests are a little later. Those that it calls
// before a time fail once all API servers that it knew are gone.
func joined(s *story, fail float64) *story {
	for _, o := range slices.Clone(s.run.Ops) {
		op := o.V
		op.Client, op.Call, op.Return = "client-go", op.Call+sec(0.25), op.Return+sec(0.25)
		if op.Call >= sec(32) && op.Call < sec(fail) {
			op.Outcome, op.Error = record.Unknown, "connection refused"
		}
		s.op(op)
	}
	return s
}

// waited makes the second client of joined wait in vain for the response to the request that is
// under way when the last API server that it knew is killed, until a time.
func waited(s *story, until float64) *story {
	return s.change(func(r *record.Run) {
		keep(r, func(o record.Op) bool { return o.Client != "client-go" || o.Call < sec(32) || o.Call >= sec(until) })
		for i := range r.Ops {
			if op := &r.Ops[i].V; op.Client == "client-go" && op.Call == sec(31.25) {
				op.Return, op.Outcome, op.Error, op.Address = sec(until), record.Unknown, "timed out", "10.77.0.13:6443"
			}
		}
	})
}

func TestLearnsAddresses(t *testing.T) {
	check := record.Check{Requirement: "HA-CL-002", Judge: "learns-addresses", Bound: "M", Fault: "k1", Params: map[string]string{"faults": "k1,k2,k3"}}
	rule(t, check, []ruling{
		{name: "learned", want: Pass, took: "500ms", says: "succeeded through node-4 (10.77.0.14:6443)", story: func() *story { return lonely(true) }},
		{name: "learned over IPv6", want: Pass, took: "500ms", says: "succeeded through node-4 ([fd00::14]:6443)", story: overIPv6(func() *story { return lonely(true) })},
		{name: "not learned over IPv6", want: Fail, says: "none of the 18 requests of failover was answered", story: overIPv6(func() *story { return lonely(false) })},
		{name: "not learned", want: Fail, says: "none of the 18 requests of failover was answered", story: func() *story { return lonely(false) }},
		{name: "two clients learned", want: Pass, took: "750ms", says: "Each of 2 clients with a list of addresses succeeded", story: func() *story { return joined(lonely(true), 0) }},
		{name: "one of two clients did not learn", want: Fail, says: "none of the 18 requests of client-go was answered", story: func() *story { return joined(lonely(true), 50) }},
		{name: "one of two clients succeeded late", want: Fail, took: "4.75s", says: "client-go succeeded only after 4.75s, through node-4", story: func() *story { return joined(lonely(true), 36) }},
		{name: "one of two clients waited for one answer", want: Inconclusive, says: "client-go after 2.75s, through node-4, and 0 of its requests failed before", story: func() *story {
			return joined(lonely(true), 0).change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Client != "client-go" || o.Call < sec(31) || o.Call > sec(34) })
				for i := range r.Ops {
					if op := &r.Ops[i].V; op.Client == "client-go" && op.Call == sec(34.25) {
						op.Call = sec(32.25)
					}
				}
			})
		}},
		{name: "one of two clients was refused by an API server that refused others", want: Inconclusive, says: "3 of its requests failed before", story: func() *story {
			return joined(lonely(true), 35).change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.OK = r.Probes[i].V.Start >= sec(35)
				}
			})
		}},
		{name: "one of two clients asked once", want: Inconclusive, says: "client-go made 1 request", story: func() *story {
			return joined(lonely(true), 50).change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Client != "client-go" || o.Call < sec(33) })
			})
		}},
		{name: "one of two clients waited for an old API server all the time", want: Inconclusive, says: "client-go made 1 request while all API servers that it started with were gone; 0 of them failed", story: func() *story { return waited(joined(lonely(true), 0), 50.5) }},
		{name: "one of two clients waited for an old API server for less than the bound", want: Pass, took: "1.75s", says: "Each of 2 clients", story: func() *story { return waited(joined(lonely(true), 0), 33) }},
		{name: "one of two clients waited for an old API server, and succeeded then", want: Inconclusive, says: "client-go after 4.75s, through node-4, and 0 of its requests failed before", story: func() *story { return waited(joined(lonely(true), 0), 36) }},
		{name: "one of two clients waited for an old API server, and then failed twice", want: Inconclusive, says: "client-go after 7.75s, through node-4, and 2 of its requests failed before", story: func() *story { return waited(joined(lonely(true), 39), 37) }},
		{name: "a request that was under way when the last one was killed", want: Pass, took: "1s", story: func() *story {
			return lonely(true).change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Call < sec(31) || o.Call >= sec(36) })
				op := r.Ops[0].V
				op.Call, op.Return, op.Address = sec(31), sec(33), "10.77.0.14:6443"
				r.Ops = append(r.Ops, record.Timed[record.Op]{At: op.Return, V: op})
			})
		}},
		{name: "got on late", want: Fail, took: "10.5s", says: "failover succeeded only after", story: func() *story {
			return lonely(true).change(func(r *record.Run) {
				for i := range r.Ops {
					if op := &r.Ops[i].V; op.Call > sec(30) && op.Call < sec(42) {
						op.Outcome = record.Unknown
					}
				}
			})
		}},
		{name: "the new one did not answer either", want: Inconclusive, says: "none of the API servers that joined later", story: func() *story {
			return lonely(false).change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.OK = false
				}
			})
		}},
		{name: "asked too seldom", want: Inconclusive, says: "made 2 requests", story: func() *story {
			return lonely(false).change(func(r *record.Run) {
				var few []record.Timed[record.Op]
				for _, o := range r.Ops {
					if o.V.Call <= sec(33) {
						few = append(few, o)
					}
				}
				r.Ops = few
			})
		}},
		{name: "nobody joined", want: Inconclusive, story: func() *story {
			return lonely(true).change(func(r *record.Run) { r.Nodes = nil })
		}},
		{name: "never together", want: Inconclusive, says: "never active together", story: func() *story {
			return lonely(true).change(func(r *record.Run) { r.Faults[1].V.Called = sec(31) })
		}},
	})
	check.Params = map[string]string{"faults": "k1,k2"}
	rule(t, check, []ruling{
		{name: "an old one was left", want: Inconclusive, says: "no fault hit node-3", story: func() *story { return lonely(true) }},
	})
}

// A node that was removed causes no failure.
func TestRemovedNodesAreSilent(t *testing.T) {
	removed := func(s *story) *story { return s.changed("", record.NodeRemoved, "node-2", "10.77.0.12", 20, 22) }
	rule(t, record.Check{Requirement: "X", Judge: "restarts"}, []ruling{
		{name: "its processes end", want: Pass, story: func() *story {
			s := newStory().at(1).process("node-1", "etcd", 7).at(1).process("node-2", "kube-scheduler", 7)
			return removed(s).at(21).process("node-2", "kube-scheduler", 0)
		}},
		{name: "the node that replaced it exits, too", want: Fail, says: "kube-scheduler on node-2", story: func() *story {
			return replacedUnderItsName(removed(newStory().at(1).process("node-2", "kube-scheduler", 7))).at(36).process("node-2", "kube-scheduler", 9).at(50).process("node-2", "kube-scheduler", 11)
		}},
		{name: "the node that replaced it runs other processes", want: Pass, story: func() *story {
			s := removed(newStory().at(1).process("node-2", "kube-scheduler", 7)).at(21).process("node-2", "kube-scheduler", 0)
			return replacedUnderItsName(s).at(32).process("node-2", "kube-scheduler", 8).at(36).process("node-2", "kube-scheduler", 9).at(50).process("node-2", "kube-scheduler", 9)
		}},
		{name: "those of others do", want: Fail, says: "kube-scheduler on node-1", story: func() *story {
			return removed(newStory().at(1).process("node-1", "kube-scheduler", 7)).at(21).process("node-1", "kube-scheduler", 0)
		}},
	})
	rule(t, record.Check{Requirement: "X", Judge: "steady-state"}, []ruling{
		{name: "a change that failed half-way", want: Inconclusive, says: "no quorum", story: func() *story {
			return newStory().change(func(r *record.Run) {
				r.Steadies[1].V.OK = false
				r.Nodes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Phase: record.NodeFailed, Error: "no quorum"}}}
			})
		}},
		{name: "a change without the ability, which was not begun", want: Pass, took: "3s", story: func() *story {
			return newStory().change(func(r *record.Run) {
				r.Nodes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Phase: record.NodeFailed, Error: "no Scaler", Missing: "Scaler"}}}
			})
		}},
		{name: "a change without the ability on a node", want: Inconclusive, says: "no CARotator", story: func() *story {
			return newStory().change(func(r *record.Run) {
				r.Changes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Action: "rotate-ca", Phase: record.NodeFailed, Error: "no CARotator", Missing: "CARotator", Node: r.Meta.Nodes[0]}}}
			})
		}},
	})
	rule(t, record.Check{Requirement: "X", Judge: "endpoints-never-empty", Fault: "kill"}, []ruling{
		{name: "its address leaves", want: Pass, story: func() *story {
			s := removed(newStory().fault("kill", "kill", "node-1", "kube-apiserver", 15, 50))
			for t := range 60 {
				if t < 21 {
					withThree(s, float64(t))
				} else {
					s.set(float64(t), 100+10*t, "10.77.0.11", "10.77.0.13")
				}
			}
			return s
		}},
	})
}

// replacedUnderItsName adds node-2 again from 30 to 35 s.
func replacedUnderItsName(s *story) *story {
	return s.changed("again", record.NodeAdded, "node-2", "10.77.0.12", 30, 35)
}

// alsoFailed adds a change of nodes that failed at the end.
func alsoFailed(name string) func(*record.Run) {
	return func(r *record.Run) {
		r.Nodes = append(r.Nodes, record.Timed[record.NodeChange]{At: sec(50), V: record.NodeChange{Name: name, Phase: record.NodeFailed, Error: "no quorum"}})
	}
}
