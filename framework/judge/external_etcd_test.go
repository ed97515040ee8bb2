package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// external makes a node of a story a host of an external etcd.
func external(s *story, host string) *story {
	return s.change(func(r *record.Run) {
		r.Meta.RemoteEtcd = true
		for i := range r.Meta.Nodes {
			if n := &r.Meta.Nodes[i]; n.Name == host {
				n.Components = []string{"etcd"}
			} else {
				n.Components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
			}
		}
		var entrances []string
		for _, e := range r.Meta.Entrances {
			if e != host {
				entrances = append(entrances, e)
			}
		}
		r.Meta.Entrances = entrances
		keep(r, func(o record.Op) bool { return o.Entrance != host })
	})
}

// remote lets each API server of a story use every etcd member.
func remote(s *story) *story {
	return s.change(func(r *record.Run) { r.Meta.RemoteEtcd = true })
}

// stalled has a fault on node-2 from 10 to 30 s, during which no write is acknowledged until 20 s.
func stalled(fault, component string) *story {
	s := leaders(newStory()).fault("fault", fault, "node-2", component, 10, 30).failing("node-1", 10.1, 20).failing("node-3", 10.1, 20)
	return s.traffic("node-1", 19.99, 40).traffic("node-3", 19.99, 40)
}

// TestExternalEtcd: a bound that counts on API servers with members of their own is not missed if
// a silent member of an external etcd makes all of them wait. A killed one does not.
func TestExternalEtcd(t *testing.T) {
	const waits = "every API server uses the etcd member on node-2 as well, which may have been silent"
	at := func(fault, component string) func() *story {
		return func() *story { return external(stalled(fault, component), "node-2") }
	}
	rule(t, record.Check{Requirement: "HA-QR-007", Judge: "write-gap", Fault: "fault", Bound: "2E + M"}, []ruling{
		{name: "silent", want: Inconclusive, took: "10s", says: waits, story: at("isolate", "")},
		{name: "with unknown effects", want: Inconclusive, says: waits, story: at("something", "etcd")},
		{name: "killed", want: Fail, took: "10s", says: "must resume within 4s", story: at("kill", "etcd")},
		{name: "a member beside an API server", want: Fail, took: "10s", says: "must resume within 4s", story: func() *story { return stalled("isolate", "") }},
		{name: "a member beside an API server, and each API server uses all members", want: Inconclusive, took: "10s", says: waits, story: func() *story { return remote(stalled("isolate", "")) }},
		{name: "such a member's process is frozen", want: Inconclusive, says: waits, story: func() *story { return remote(stalled("freeze", "etcd")) }},
		{name: "such a member was killed", want: Fail, took: "10s", says: "must resume within 4s", story: func() *story { return remote(stalled("kill", "etcd")) }},
		{name: "the API server beside such a member was frozen", want: Fail, took: "10s", says: "must resume within 4s", story: func() *story {
			return remote(stalled("freeze", "kube-apiserver"))
		}},
		{name: "such a member was silent, and nothing waits", want: Pass, story: func() *story { return remote(isolated()).renamed("fault") }},
		{name: "an API server's node", want: Fail, says: "must resume within 4s", story: func() *story { return external(stalled("isolate", ""), "node-1") }},
		{name: "silent, and nothing waits", want: Pass, story: func() *story { return external(isolated(), "node-2").renamed("fault") }},
	})
	// later has a member that is silent until healed, and writes that wait from 50 s on.
	later := func(healed float64) func() *story {
		return func() *story {
			s := leaders(newStory()).fault("silent", "isolate", "node-2", "", 1, healed).fault("later", "kill", "node-3", "etcd", 50, 58)
			for _, n := range []string{"node-1", "node-3"} {
				s.traffic(n, 30, 50).failing(n, 50.1, 56).traffic(n, 56, 59)
			}
			return external(s, "node-2")
		}
	}
	rule(t, record.Check{Requirement: "HA-QR-005", Judge: "write-gap", Fault: "later", Bound: "2E + M"}, []ruling{
		{name: "connections to a member that is back may still wait", want: Inconclusive, says: waits, story: later(20)},
		{name: "a member that was back long before", want: Fail, says: "must resume within 4s", story: later(3)},
	})
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + P + M"}, []ruling{
		{name: "a new holder that waits for a silent member", want: Inconclusive, says: waits, story: func() *story {
			return external(neverRenewed().fault("silent", "isolate", "node-2", "", 5, 70), "node-2")
		}},
	})
	rule(t, record.Check{Requirement: "HA-QR-002", Judge: "isolated-member", Fault: "cut", Bound: "2E + M"}, []ruling{
		{name: "no API server beside the member", want: NotApplicable, says: "No API server depends on the etcd member on node-2 alone", story: func() *story { return external(isolated(), "node-2") }},
		{name: "an address of etcd that is not on a node", want: NotApplicable, says: "API servers reach etcd at https://etcd.example:2379 as well", story: func() *story {
			return isolated().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1).change(func(r *record.Run) { r.Meta.RemoteEtcd, r.Meta.OutsideEtcd = true, "https://etcd.example:2379" })
		}},
	})
	rule(t, record.Check{Requirement: "HA-QR-014", Level: "INFO", Judge: "time-travel", Fault: "cut"}, []ruling{
		{name: "no API server beside the member", want: NotApplicable, says: "No API server depends on", story: func() *story { return external(isolated(), "node-2") }},
	})
}

// renamed gives the only fault of a story another name.
func (s *story) renamed(id string) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Faults {
			r.Faults[i].V.ID = id
		}
	})
}

// TestSafetyOfExternalEtcd: what no wait explains is a failure, also with a silent member.
func TestSafetyOfExternalEtcd(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-QR-007", Judge: "write-gap", Fault: "fault", Bound: "2E + M", Params: map[string]string{"newLeader": "true"}}, []ruling{
		{name: "no new leader", want: Fail, says: "etcd must have a new leader", story: func() *story {
			s := newStory().fault("fault", "isolate", "node-2", "", 10, 30).traffic("node-1", 1, 40).traffic("node-3", 1, 40)
			for t := range 40 {
				s.at(float64(t)).etcd("node-1", "m2", 2).etcd("node-2", "m2", 2).etcd("node-3", "m2", 2)
			}
			return external(s, "node-2")
		}},
	})
}

// TestRestartsWithExternalEtcd: an API server may exit while a member that it uses is silent.
func TestRestartsWithExternalEtcd(t *testing.T) {
	exits := func(fault string) func() *story {
		return func() *story {
			s := newStory().fault("fault", fault, "node-1", "etcd", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
			return external(s, "node-1").change(func(r *record.Run) {
				for i := range r.Processes {
					r.Processes[i].V.Component = "kube-apiserver"
				}
				// Two more hosts, so that one may be lost.
				r.Meta.Nodes = append(r.Meta.Nodes, record.Node{Name: "etcd-2", Components: []string{"etcd"}}, record.Node{Name: "etcd-3", Components: []string{"etcd"}})
			})
		}
	}
	stacked := func(fault string, shared bool) func() *story {
		return func() *story {
			return newStory().fault("fault", fault, "node-1", "etcd", 10, 20).ran(1, 7, 0).ran(12, 9, 1).change(func(r *record.Run) {
				r.Meta.RemoteEtcd = shared
				for i := range r.Processes {
					r.Processes[i].V.Component = "kube-apiserver"
				}
			})
		}
	}
	// lost has node-1 lose its power at 10 s and its member removed soon, and a component of node-2
	// exit at 21 s.
	lost := func(component string, shared bool) func() *story {
		return func() *story {
			s := newStory().at(1).process("node-2", component, 7).at(9).lease("kube-controller-manager", "node-2", 10, 9)
			s.changed("lost", record.NodeLost, "node-1", "10.77.0.11", 10, 11).at(19).lease("kube-controller-manager", "node-2", 20, 19)
			s.at(20).process("node-2", component, 7).at(21).process("node-2", component, 9)
			return s.change(func(r *record.Run) { r.Meta.RemoteEtcd = shared })
		}
	}
	wide(t, "restarts", []ruling{
		{name: "while the member of a lost node that it uses was silent", want: Pass, story: lost("kube-apiserver", true)},
		{name: "while the member of a lost node that it does not use was silent", want: Fail, says: "no fault was active", story: lost("kube-apiserver", false)},
		{name: "the holder, while the member of a lost node that API servers use was silent", want: Pass, story: lost("kube-controller-manager", true)},
		{name: "the holder, while the member of a lost node that they do not use was silent", want: Fail, says: "no fault was active", story: lost("kube-controller-manager", false)},
		{name: "while a member of another node that it uses was silent", want: Pass, story: stacked("freeze", true)},
		{name: "while a member of another node that it does not use was silent", want: Fail, says: "no active fault reached it", story: stacked("freeze", false)},
		{name: "while a member of another node that it uses was killed", want: Fail, says: "no active fault reached it", story: stacked("kill", true)},
		{name: "while a member was silent", want: Pass, story: exits("isolate")},
		{name: "while a member was killed", want: Fail, says: "no active fault reached it", story: exits("kill")},
	})
}

// TestCompleteWithExternalEtcd: a host of etcd lacks nothing without an API server.
func TestCompleteWithExternalEtcd(t *testing.T) {
	with := func(components ...string) func() *story {
		return func() *story {
			return complete().change(func(r *record.Run) {
				r.Meta.Nodes = append(r.Meta.Nodes, record.Node{Name: "etcd-1", Address: "10.77.0.21", Components: components})
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-TOP-002", Judge: "control-plane-complete"}, []ruling{
		{name: "a host of etcd", want: Pass, says: "Each of 3 nodes runs", story: with("etcd")},
		{name: "a node without etcd", want: Inconclusive, says: "the state of kube-apiserver on etcd-1", story: with("kube-scheduler")},
	})
}

// TestNoEndpointOfEtcd: a host of an external etcd has no address that could leave or return.
func TestNoEndpointOfEtcd(t *testing.T) {
	for _, judge := range []string{"endpoint-removed", "endpoint-returned"} {
		rule(t, record.Check{Requirement: "HA-EP-006", Judge: judge, Fault: "fault", Bound: "I + M"}, []ruling{
			{name: judge, want: NotApplicable, says: "No API server depends on the etcd member on node-2 alone", story: func() *story {
				return external(stalled("isolate-etcd", "etcd"), "node-2")
			}},
		})
	}
}
