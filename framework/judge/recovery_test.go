package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// runs records that a component of a node runs as a process.
func (s *story) runs(t float64, node, component string, pid int) *story {
	return s.at(t).process(node, component, pid)
}

// unreported records that a query for a component of a node failed.
func (s *story) unreported(t float64, node, component string) *story {
	return add(s.at(t), &s.run.Processes, record.ProcessState{Node: node, Component: component, Error: "agent did not answer"})
}

var allComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// backAgain cuts node-2's power from 10 s to 15 s, and its parts come back at a time.
func backAgain(components, etcd, server float64) *story {
	s := newStory()
	for i, c := range allComponents {
		s.runs(1, "node-2", c, 10+i)
	}
	s.at(2).etcd("node-2", "m1", 1).probes("node-2", true, 3, 9)
	s.fault("off", "power-off", "node-2", "", 10, 15)
	for i, c := range allComponents {
		s.runs(components, "node-2", c, 20+i)
	}
	s.at(etcd).etcd("node-2", "m1", 1)
	return s.probes("node-2", true, server, server+1).at(60)
}

// unhealed takes the proof from all healings.
func unhealed(s *story) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Faults {
			if f := &r.Faults[i].V; f.Phase == record.FaultHealed {
				f.Proven, f.Proof = false, "the process watcher has not restarted it"
			}
		}
	})
}

// booted records when the machine of node-2 started.
func (s *story) booted(t float64) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Faults {
			if f := &r.Faults[i].V; f.Phase == record.FaultHealed {
				f.Booted = map[string]record.Nanos{"node-2": sec(t)}
			}
		}
	})
}

func TestRejoins(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-RC-003", Judge: "rejoins", Fault: "off", Bound: "10s + 2E + M"}, []ruling{
		{name: "all back in time", want: Pass, took: "5.05s", says: "node-2 rejoined unaided: all 6", story: func() *story { return backAgain(16, 18, 20) }},
		{name: "the API server is late", want: Fail, took: "20.05s", says: "the API server on node-2 came back after", story: func() *story { return backAgain(16, 18, 35) }},
		{name: "the member is late", want: Fail, took: "25s", says: "the etcd member on node-2", story: func() *story { return backAgain(16, 40, 20) }},
		{name: "a component does not come back", want: Fail, says: "kube-scheduler on node-2 had not rejoined ", story: func() *story {
			return backAgain(16, 18, 20).change(func(r *record.Run) {
				for i := range r.Processes {
					if p := &r.Processes[i].V; p.Component == "kube-scheduler" && p.PID > 20 {
						p.PID = 0
					}
				}
			})
		}},
		{name: "not looked at for long enough", want: Inconclusive, says: "had not come back when it was last checked", story: func() *story {
			return backAgain(16, 18, 35).change(func(r *record.Run) { r.EndAt = sec(25) })
		}},
		{name: "another fault comes before", want: Inconclusive, says: "had not come back", story: func() *story {
			return backAgain(16, 18, 35).fault("next", "kill", "node-2", "kube-apiserver", 22, 30).at(60)
		}},
		{name: "a machine whose firmware takes long", want: Pass, took: "8.05s", story: func() *story { return backAgain(36, 38, 40).booted(32) }},
		{name: "late after the machine has started", want: Fail, took: "18.05s", says: "the API server on node-2 came back after", story: func() *story { return backAgain(36, 38, 50).booted(32) }},
		{name: "a component exits again for good", want: Inconclusive, says: "kube-scheduler on node-2 came back, exited again at 22.000s, and was not started again for 38s", story: func() *story {
			return backAgain(16, 18, 20).runs(22, "node-2", "kube-scheduler", 0).at(60)
		}},
		{name: "a component exits again, and is started again", want: Pass, story: func() *story {
			return backAgain(16, 18, 20).runs(22, "node-2", "kube-scheduler", 0).runs(24, "node-2", "kube-scheduler", 44).at(60)
		}},
		{name: "a component exits when a later fault hits it", want: Pass, story: func() *story {
			return backAgain(16, 18, 20).fault("next", "kill", "node-2", "kube-scheduler", 30, 55).runs(30.5, "node-2", "kube-scheduler", 0).at(60)
		}},
		{name: "without access to processes and members", want: NotApplicable, says: "but the provider gives no access to the processes and etcd members", story: func() *story {
			return backAgain(16, 18, 20).change(func(r *record.Run) {
				r.Processes, r.Etcd, r.Meta.NoAccess = nil, nil, []record.Access{record.AuditLogs, record.EtcdMembers, record.Processes}
			})
		}},
		{name: "without access to processes, and late", want: Fail, says: "the API server on node-2 came back after", story: func() *story {
			return backAgain(16, 18, 35).change(func(r *record.Run) { r.Processes, r.Meta.NoAccess = nil, []record.Access{record.Processes} })
		}},
		{name: "etcd elsewhere", want: Pass, says: "all 4", story: func() *story {
			return backAgain(16, 18, 20).change(func(r *record.Run) {
				r.Etcd, r.Meta.NoAccess = nil, []record.Access{record.EtcdMembers}
				for i := range r.Meta.Nodes {
					r.Meta.Nodes[i].Components = allComponents[1:]
				}
			})
		}},
		{name: "the member never comes back", want: Fail, says: "the etcd member on node-2 had not rejoined 44s later", story: func() *story {
			return unhealed(backAgain(16, 18, 20)).change(func(r *record.Run) { r.Etcd = r.Etcd[:1] })
		}},
		{name: "all back in time, yet nothing proves it", want: Inconclusive, says: "had no proof", story: func() *story { return unhealed(backAgain(16, 18, 20)) }},
		{name: "a machine that starts just before the end, as far as is known", want: Inconclusive, says: "had no proof", story: func() *story {
			return unhealed(backAgain(50, 58, 59)).change(func(r *record.Run) { r.Etcd = r.Etcd[:1] })
		}},
		{name: "a machine that does not start, as far as is known", want: Inconclusive, says: "had no proof", story: func() *story {
			return unhealed(backAgain(16, 18, 20)).change(func(r *record.Run) {
				for i := range r.Processes {
					if p := &r.Processes[i]; p.At > sec(10) {
						p.V.PID, p.V.LastExit = 0, "powered off"
					}
				}
			})
		}},
		{name: "no loss of power", want: Inconclusive, says: "does not cut a node's power", story: func() *story { return newStory().fault("off", "kill", "node-2", "etcd", 10, 15) }},
	})
}

func TestComponentsGoOn(t *testing.T) {
	killed := func(more func(*story)) func() *story {
		return func() *story {
			s := newStory()
			for i, c := range allComponents {
				s.runs(1, "node-2", c, 10+i)
			}
			s.runs(1, "node-2", "node-agent", 5).fault("watcher", "kill", "node-2", "node-agent", 10, 12)
			s.runs(11, "node-2", "node-agent", 6)
			more(s)
			for i, c := range allComponents {
				s.runs(58, "node-2", c, 10+i)
			}
			return s.at(60)
		}
	}
	rule(t, record.Check{Requirement: "HA-RC-002", Judge: "components-go-on", Fault: "watcher"}, []ruling{
		{name: "all go on", want: Pass, took: "4 components", story: killed(func(*story) {})},
		{name: "one ends with it", want: Fail, says: "kube-scheduler on node-2 had exited and been started again", story: killed(func(s *story) { s.runs(11.5, "node-2", "kube-scheduler", 77) })},
		{name: "one is gone", want: Fail, says: "etcd on node-2 had exited", story: killed(func(s *story) { s.runs(11.5, "node-2", "etcd", 0) })},
		{name: "one ends after the next fault", want: Pass, story: killed(func(s *story) {
			s.fault("next", "kill", "node-2", "kube-scheduler", 20, 21).runs(21, "node-2", "kube-scheduler", 77)
		})},
		{name: "not reported while the watcher is gone", want: Pass, story: killed(func(s *story) {
			for i, c := range allComponents {
				s.unreported(10.5, "node-2", c).runs(12, "node-2", c, 10+i)
			}
		})},
		{name: "not reported until the next fault, and the same then", want: Pass, story: killed(func(s *story) {
			s.unreported(10.5, "node-2", "etcd").fault("next", "kill", "node-1", "kube-scheduler", 20, 21)
		})},
		{name: "not reported until the next fault, and another one then", want: Inconclusive, says: "did not report etcd again between a failed query", story: killed(func(s *story) {
			s.unreported(10.5, "node-2", "etcd").fault("next", "kill", "node-1", "kube-scheduler", 20, 21).runs(30, "node-2", "etcd", 77)
		})},
		{name: "one may have ended before the next fault, which hits another node", want: Inconclusive, says: "did not report kube-scheduler again", story: killed(func(s *story) {
			s.fault("next", "kill", "node-1", "kube-scheduler", 20, 21).runs(20.3, "node-2", "kube-scheduler", 77)
			s.run.Processes[len(s.run.Processes)-1].V.Before = sec(19.8)
		})},
		{name: "one ends when the next fault hits it", want: Pass, story: killed(func(s *story) {
			s.fault("next", "kill", "node-2", "kube-scheduler", 20, 21).runs(20.3, "node-2", "kube-scheduler", 77)
			s.run.Processes[len(s.run.Processes)-1].V.Before = sec(19.8)
		})},
		{name: "never reported again", want: Inconclusive, says: "did not report etcd again between a failed query", story: func() *story {
			s := killed(func(*story) {})()
			for i := range s.run.Processes {
				if p := &s.run.Processes[i]; p.At == sec(58) {
					p.V.PID, p.V.Error = 0, "agent did not answer"
				}
			}
			return s
		}},
		{name: "another component", want: Inconclusive, says: "does not hit a process watcher", story: func() *story { return newStory().fault("watcher", "kill", "node-2", "etcd", 10, 12) }},
		{name: "nothing is known", want: Inconclusive, says: "shows nothing about the components", story: func() *story { return newStory().fault("watcher", "kill", "node-2", "node-agent", 10, 12) }},
	})
}

func TestSnapshotVerifies(t *testing.T) {
	taken := func(change func(*record.Op)) func() *story {
		return func() *story {
			s := newStory().fault("down", "kill", "node-2", "etcd", 10, 20)
			o := during(12, 12.5)
			o.API, o.Type, o.Entrance, o.Key, o.Purpose, o.Found, o.Value, o.Revision, o.Header = "etcd", record.OpGet, "node-1", "snapshot", "snapshot", true, "9 keys", "101", "100"
			o.Outcome = record.OK
			s.op(o)
			o.Entrance = "node-3"
			change(&o)
			return s.op(o)
		}
	}
	rule(t, record.Check{Requirement: "HA-RC-006", Judge: "snapshot-verifies", Fault: "down"}, []ruling{
		{name: "it verifies", want: Pass, took: "2 snapshots", story: taken(func(*record.Op) {})},
		{name: "it does not", want: Fail, says: "does not: checksum", story: taken(func(o *record.Op) { o.Found, o.Error = false, "checksum" })},
		{name: "it is older than what was acknowledged", want: Fail, says: "has revision 99, but a quorum was already at 100", story: taken(func(o *record.Op) { o.Revision = "99" })},
		{name: "none could be taken", want: Fail, says: "none could be taken", story: taken(func(o *record.Op) { o.Outcome, o.Error = record.Unknown, "timed out" })},
		{name: "before the fault", want: Inconclusive, says: "no snapshot was taken of the etcd member on node-3", story: taken(func(o *record.Op) { o.Call, o.Return = sec(5), sec(6) })},
		{name: "none of a member that is up", want: Inconclusive, says: "no snapshot was taken of the etcd member on node-3", story: taken(func(o *record.Op) { o.Entrance = "node-1" })},
		{name: "none", want: Inconclusive, says: "no snapshot was taken during", story: func() *story { return newStory().fault("down", "kill", "node-2", "etcd", 10, 20) }},
		{name: "without a revision", want: Inconclusive, says: "does not have the revision", story: taken(func(o *record.Op) { o.Revision, o.Header = "", "" })},
		{name: "two members are down", want: Pass, story: func() *story {
			return taken(func(o *record.Op) { o.Entrance = "node-1" })().fault("too", "kill", "node-3", "etcd", 9, 21)
		}},
	})
}

// refusedReads refuses the first reads of the key quiet through node-3.
func refusedReads(of func() *story, n int) func() *story {
	return func() *story {
		return of().change(func(r *record.Run) {
			left := n
			for i := range r.Ops {
				if o := &r.Ops[i].V; left > 0 && o.Key == "quiet" && o.Entrance == "node-3" {
					o.Outcome, o.Error, o.Found, o.Value = record.Refused, "dial tcp: connection refused", false, ""
					left--
				}
			}
		})
	}
}

func TestQuotaReached(t *testing.T) {
	full := func(alarm bool, more func(*story)) func() *story {
		return func() *story {
			s := newStory().fault("full", "fill-quota", "node-2", "etcd", 10, 16)
			for _, n := range []string{"node-1", "node-2", "node-3"} {
				s.traffic(n, 1, 10).traffic(n, 16.5, 40)
				for t := 10.2; t < 15.5; t += 0.3 {
					s.read(n, "quiet", "v", 0, t, t+0.1)
				}
			}
			s.at(13).etcd("node-1", "m1", 1)
			if alarm {
				s.run.Etcd[len(s.run.Etcd)-1].V.Alarms = []string{"memberID:1  alarm:NOSPACE"}
			}
			more(s)
			return s.at(45)
		}
	}
	none := func(*story) {}
	rule(t, record.Check{Requirement: "HA-RC-008", Judge: "quota-reached", Fault: "full", Bound: "2E + M"}, []ruling{
		{name: "as it should be", want: Pass, says: "The alarm was raised", story: full(true, none)},
		{name: "no alarm", want: Fail, says: "none did during", story: full(false, none)},
		{name: "a read is not answered", want: Fail, says: "was not answered", story: full(true, func(s *story) { s.read("node-3", "quiet", "", 0, 12, 14).outcome(record.Unknown) })},
		{name: "a read of a burst is not answered", want: Pass, story: full(true, func(s *story) {
			s.read("node-3", "quiet", "", 0, 12, 14).outcome(record.Unknown).purpose(facts.PurposeBurst)
		})},
		{name: "every read through an API server is refused", want: Fail, says: "none of 18 quorum reads through node-3 was answered (dial tcp: connection refused)", story: refusedReads(full(true, none), 100)},
		{name: "most reads through an API server are refused", want: Inconclusive, says: "5 of 18 quorum reads through node-3 were answered", story: refusedReads(full(true, none), 13)},
		{name: "most of many reads through an API server are refused", want: Inconclusive, says: "19 of 59 quorum reads through node-3 were answered", story: refusedReads(full(true, func(s *story) {
			for t := range steps(10.3, 14.4, 0.1) {
				s.read("node-3", "quiet", "v", 0, t, t+0.05)
			}
		}), 40)},
		{name: "a read is refused", want: Pass, story: refusedReads(full(true, none), 1)},
		{name: "no read", want: Inconclusive, says: "fewer than the 10 required", story: func() *story {
			return full(true, none)().change(func(r *record.Run) {
				kept := r.Ops[:0]
				for _, o := range r.Ops {
					if o.V.Key != "quiet" || o.V.Entrance != "node-3" {
						kept = append(kept, o)
					}
				}
				r.Ops = kept
			})
		}},
		{name: "writes do not go on", want: Fail, says: "through node-3, none was acknowledged for", story: func() *story {
			s := full(true, none)()
			s.change(func(r *record.Run) {
				kept := r.Ops[:0]
				for _, o := range r.Ops {
					if o.V.Entrance != "node-3" || o.V.Call < sec(16) {
						kept = append(kept, o)
					}
				}
				r.Ops = kept
			})
			return s.failing("node-3", 16.5, 40).at(45)
		}},
		{name: "not queried", want: Inconclusive, says: "no etcd member was asked", story: func() *story { return full(false, none)().change(func(r *record.Run) { r.Etcd = nil }) }},
	})
}

func TestDamageContained(t *testing.T) {
	process := func(s *story, t float64, pid, restarts int, exit string) *story {
		return add(s.at(t), &s.run.Processes, record.ProcessState{Node: "node-2", Component: "etcd", PID: pid, Restarts: restarts, LastExit: exit})
	}
	// looked is a history in which etcd had exited once before the fault, and exits repeatedly after it.
	looked := func(exits bool, look func(t float64, s *record.EtcdStatus)) func() *story {
		return func() *story {
			s := process(newStory(), 9, 11, 1, "exit status 1").fault("gone", "disk-wipe", "node-2", "etcd", 10, 16)
			if process(s, 10.4, 0, 1, "signal: killed"); exits {
				process(s, 11.2, 12, 2, "signal: killed")
				process(s, 11.7, 0, 2, "exit status 1")
				process(s, 12.7, 0, 3, "exit status 1")
				process(s, 14.8, 13, 4, "exit status 1")
			}
			for t := 10.5; t < 15.9; t++ {
				e := record.EtcdStatus{Node: "node-2", Error: "connection refused"}
				look(t, &e)
				add(s.at(t), &s.run.Etcd, e)
			}
			return s.at(30)
		}
	}
	looks := func(look func(t float64, s *record.EtcdStatus)) func() *story { return looked(true, look) }
	rule(t, record.Check{Requirement: "HA-RC-007", Judge: "damage-contained", Fault: "gone"}, []ruling{
		{name: "it does not start", want: Pass, took: "6 queries", says: "etcd started and exited 2 times", story: looks(func(float64, *record.EtcdStatus) {})},
		{name: "nothing started it since", want: Inconclusive, says: "was not seen to start and exit", story: looked(false, func(float64, *record.EtcdStatus) {})},
		{name: "it serves", want: Fail, says: "must not serve", story: looks(func(t float64, s *record.EtcdStatus) { s.OK, s.Leader = t > 13, "m1" })},
		{name: "it answers without a leader", want: Inconclusive, says: "may answer serializable reads", story: looks(func(t float64, s *record.EtcdStatus) { s.OK = t > 13 })},
		{name: "it raises the alarm", want: Pass, says: "raised the CORRUPT alarm", story: looks(func(t float64, s *record.EtcdStatus) {
			s.OK, s.Alarms = t > 11, []string{"memberID:1 alarm:CORRUPT "}
		})},
		{name: "it raises the alarm after it has served", want: Inconclusive, says: "raised the CORRUPT alarm at 14.500s, but followed a leader at 11.500s", story: looks(func(t float64, s *record.EtcdStatus) {
			if s.OK, s.Leader = t > 11, "m1"; t > 14 {
				s.Alarms = []string{"memberID:1 alarm:CORRUPT "}
			}
		})},
		{name: "the alarm is that of another member", want: Fail, says: "must not serve", story: looks(func(t float64, s *record.EtcdStatus) {
			s.OK, s.Leader, s.Member, s.Alarms = t > 11, "m1", "a2", []string{"memberID:163  alarm:CORRUPT"} // a3
		})},
		{name: "the alarm is its own", want: Pass, says: "raised the CORRUPT alarm", story: looks(func(t float64, s *record.EtcdStatus) {
			s.OK, s.Leader, s.Member, s.Alarms = t > 11, "m1", "a2", []string{"memberID:163  alarm:CORRUPT", "memberID:162 alarm:CORRUPT"}
		})},
		{name: "the alarm names no member", want: Pass, says: "raised the CORRUPT alarm", story: looks(func(t float64, s *record.EtcdStatus) {
			s.OK, s.Leader, s.Member, s.Alarms = t > 11, "m1", "a2", []string{"alarm:CORRUPT"}
		})},
		{name: "not queried", want: Inconclusive, says: "was queried 0 times", story: func() *story { return newStory().fault("gone", "disk-wipe", "node-2", "etcd", 10, 16) }},
	})
	rule(t, record.Check{Requirement: "HA-RC-007", Judge: "damage-contained", Fault: "gone", Params: map[string]string{"restart": "read"}}, []ruling{
		{name: "it served until it read its data", want: Pass, story: func() *story {
			return looks(func(t float64, s *record.EtcdStatus) { s.OK, s.Leader = t < 12, "m1" })().fault("read", "kill", "node-2", "etcd", 12, 16.1).at(30)
		}},
		{name: "no such injection", want: Inconclusive, says: `no injection "read"`, story: looks(func(float64, *record.EtcdStatus) {})},
	})
}
