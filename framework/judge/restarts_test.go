package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// ran adds a state of node-2's scheduler: 0 means no process.
func (s *story) ran(t float64, pid, restarts int) *story {
	s.at(t)
	p := record.ProcessState{Node: "node-2", Component: "kube-scheduler", PID: pid, State: "S", Restarts: restarts}
	if pid == 0 {
		p.State, p.LastExit = "", "signal: killed"
	}
	return add(s, &s.run.Processes, p)
}

// checkedBefore has the last state be preceded by a check at a time.
func (s *story) checkedBefore(t float64) *story {
	s.run.Processes[len(s.run.Processes)-1].V.Before = sec(t)
	return s
}

// TestRestartsAfterRemoval: an etcd leader that removes a member without power may send nothing for
// 10 s, so that the active instance of its node cannot renew its lease.
func TestRestartsAfterRemoval(t *testing.T) {
	// removed has node-2's scheduler exit at a time, after node-3 was removed with this phase.
	removed := func(phase record.ChangePhase, leader, holder string, exit float64, after ...string) func() *story {
		return func() *story {
			s := newStory()
			for at := range 16 {
				s.at(float64(at)).etcd("node-1", leader, 2).etcd("node-2", leader, 2)
			}
			s.at(5).lease("kube-scheduler", holder, 100, 5).at(12).lease("kube-scheduler", holder, 101, 12)
			s.steps("node-3", 12, losing...).changed("three", phase, "node-3", "10.77.0.13", 10, 11)
			s.run.Nodes[0].At = sec(15)
			s.at(16).etcd("node-2", leader, 2).etcd("node-1", append(after, "m1")[0], 3)
			return s.ran(1, 7, 0).ran(exit-0.5, 7, 0).ran(exit, 9, 1)
		}
	}
	wide(t, "restarts", []ruling{
		{name: "the active instance beside the leader", want: Pass, story: removed(record.NodeLost, "m2", "node-2_a", 24)},
		{name: "no other leader can be elected", want: Pass, story: removed(record.NodeLost, "m2", "node-2_a", 24, "")},
		{name: "the leader is followed throughout", want: Fail, says: "no fault was active", story: removed(record.NodeLost, "m2", "node-2_a", 24, "m2")},
		{name: "the leader is elsewhere", want: Fail, says: "no fault was active", story: removed(record.NodeLost, "m1", "node-2_a", 24)},
		{name: "another instance is active", want: Fail, says: "no fault was active", story: removed(record.NodeLost, "m2", "node-1_b", 24)},
		{name: "long afterwards", want: Fail, says: "no fault was active", story: removed(record.NodeLost, "m2", "node-2_a", 45)},
		{name: "before", want: Fail, says: "no fault was active", story: removed(record.NodeLost, "m2", "node-2_a", 12)},
		{name: "the removed node has power", want: Fail, says: "no fault was active", story: removed(record.NodeRemoved, "m2", "node-2_a", 24)},
		{name: "a component that is not elected", want: Fail, says: "etcd on node-2", story: func() *story {
			return removed(record.NodeLost, "m2", "node-2_a", 24)().change(func(r *record.Run) {
				for i := range r.Processes {
					r.Processes[i].V.Component = "etcd"
				}
			})
		}},
	})
}

func TestRestarts(t *testing.T) {
	wide(t, "restarts", []ruling{
		{name: "none", want: Pass, took: "1 component", story: func() *story { return newStory().ran(1, 7, 0).ran(60, 7, 0) }},
		{name: "nothing seen", want: NotApplicable, story: func() *story { return newStory() }},
		{name: "ended by itself", want: Fail, says: "kube-scheduler on node-2 had exited (signal: killed) when it was checked at 30.000s", story: func() *story {
			return newStory().ran(1, 7, 0).ran(30, 0, 0).ran(31, 9, 1)
		}},
		{name: "between two looks", want: Fail, says: "had exited and been started again", story: func() *story { return newStory().ran(1, 7, 0).ran(30, 7, 1) }},
		{name: "by a fault", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-scheduler", 10, 20).ran(1, 7, 0).ran(10.2, 0, 0).ran(21, 9, 1)
		}},
		{name: "by a fault elsewhere", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(30, 9, 1)
		}},
		{name: "too long after a fault, and checked shortly before", want: Fail, says: "no fault was active", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(37, 9, 1).checkedBefore(36.5)
		}},
		{name: "perhaps soon after a fault, since it was not checked for long", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(42, 9, 1).checkedBefore(33)
		}},
		{name: "by a fault of the API server elsewhere, since it is elected", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "node-1", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "while another instance was killed", want: Fail, says: "kube-scheduler on node-2 had exited and been started again when it was checked at 12.000s, and no active fault reached it", story: func() *story {
			return newStory().fault("kill", "kill", "node-1", "kube-scheduler", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "while its lease was stolen from another instance", want: Pass, story: func() *story {
			return newStory().fault("steal", "lease-steal", "node-1", "kube-scheduler", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "while the lease of another component was stolen", want: Fail, story: func() *story {
			return newStory().fault("steal", "lease-steal", "node-2", "kube-controller-manager", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "etcd while a lease was stolen", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("lease-steal", "kube-scheduler", "node-1") }},
		{name: "while another component of the node was killed", want: Fail, story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-controller-manager", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "while another component of the same process was killed", want: Pass, story: func() *story {
			s := newStory().fault("kill", "kill", "node-2", "kube-controller-manager", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
			return s.change(func(r *record.Run) { r.Faults[0].V.Group = []string{"kube-controller-manager", "kube-scheduler"} })
		}},
		{name: "etcd while quorum was lost by components of the same processes", want: Pass, story: func() *story {
			return restartedEtcd("kill", "kube-scheduler", "node-1").fault("two", "kill", "node-3", "kube-scheduler", 11, 19).change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Group = []string{"etcd", "kube-scheduler"}
				}
			})
		}},
		{name: "etcd while another member was killed", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("kill", "etcd", "node-1") }},
		{name: "etcd while a node was isolated", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("isolate", "", "node-1") }},
		{name: "etcd while a node was powered off", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("power-off", "", "node-1") }},
		{name: "etcd while quorum was lost", want: Pass, story: func() *story {
			return restartedEtcd("kill", "etcd", "node-1").fault("two", "kill", "node-3", "etcd", 11, 19)
		}},
		{name: "etcd while a node's API server was killed", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("kill", "kube-apiserver", "node-1") }},
		{name: "etcd by a fault on its node", want: Pass, story: func() *story { return restartedEtcd("isolate", "", "node-2") }},
		{name: "etcd by a fault that acts on all", want: Pass, story: func() *story { return restartedEtcd("restore-snapshot", "etcd", "node-1") }},
		{name: "etcd by a fault of the network", want: Pass, story: func() *story { return restartedEtcd("latency", "", "") }},
		{name: "the scheduler while the balancer was killed", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "", "load-balancer", 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		}},
		{name: "etcd while the balancer was killed", want: Fail, says: "etcd on node-2", story: func() *story { return restartedEtcd("kill", "load-balancer", "") }},
		{name: "long after a fault", want: Fail, says: "at 50.000s", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(50, 9, 1)
		}},
		{name: "long before a fault", want: Fail, says: "at 5.000s", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(5, 9, 1)
		}},
		{name: "unknown when, since the node was silent", want: Pass, story: func() *story {
			s := newStory().fault("kill", "kill", "node-2", "node-agent", 10, 20).ran(1, 7, 0)
			s.at(12)
			add(s, &s.run.Processes, record.ProcessState{Node: "node-2", Component: "kube-scheduler", Error: "no answer"})
			return s.ran(50, 9, 1)
		}},
		{name: "after a fault, by a node that was silent since", want: Fail, says: "no fault was active", story: func() *story {
			s := newStory().fault("kill", "kill", "node-2", "node-agent", 10, 20).ran(1, 7, 0)
			s.at(50)
			add(s, &s.run.Processes, record.ProcessState{Node: "node-2", Component: "kube-scheduler", Error: "no answer", Before: sec(47.5)})
			return s.ran(51, 9, 1)
		}},
		{name: "not seen again", want: Inconclusive, says: "it was last checked at 47.500s", story: func() *story {
			s := newStory().ran(1, 7, 0)
			s.at(50)
			return add(s, &s.run.Processes, record.ProcessState{Node: "node-2", Component: "kube-scheduler", Error: "no answer", Before: sec(47.5)})
		}},
		{name: "a fault without an end", want: Pass, story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).ran(1, 7, 0).ran(50, 9, 1).
				change(func(r *record.Run) { r.Faults[1].V.Proven = false })
		}},
		{name: "ended by itself, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return newStory().ran(1, 7, 0).ran(30, 9, 1).change(func(r *record.Run) { r.Harness[25].V.Late = time.Second })
		}},
	})
}

// restartedEtcd has the etcd member of node-2 start again while a fault is active.
func restartedEtcd(fault, component, node string) *story {
	return newStory().fault("fault", fault, node, component, 10, 20).ran(1, 7, 0).ran(12, 9, 1).change(func(r *record.Run) {
		for i := range r.Processes {
			r.Processes[i].V.Component = "etcd"
		}
	})
}

// mute is a machine that reports nothing about the scheduler from a time on.
func mute(s *story, t float64) *story {
	s.at(t)
	return add(s, &s.run.Processes, record.ProcessState{Node: "node-2", Component: "kube-scheduler", Error: "no answer"})
}

func TestRestarted(t *testing.T) {
	killed := func() *story {
		return newStory().fault("kill", "kill", "node-2", "kube-scheduler", 10, 30).ran(1, 7, 0).ran(10.3, 0, 0).
			change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects = []record.Effect{record.EffectRestarted}
				}
			})
	}
	rule(t, record.Check{Requirement: "HA-RC-001", Judge: "restarted", Fault: "kill", Bound: "10s"}, []ruling{
		{name: "as it should be", want: Pass, took: "2.5s", says: "kube-scheduler on node-2 was started again 2.5s after the kill of kube-scheduler on node-2, within 10s (10s), and stayed up for 47.5s",
			story: func() *story { return killed().ran(12.5, 9, 1).ran(60, 9, 1) }},
		{name: "between two looks", want: Pass, took: "500ms", story: func() *story {
			return killed().change(func(r *record.Run) { r.Processes = r.Processes[:1] }).ran(10.5, 7, 1)
		}},
		{name: "too late", want: Fail, took: "15s", says: "it was started only after 15s", story: func() *story { return killed().ran(25, 9, 1) }},
		{name: "too late, once more", want: Inconclusive, says: "it had exited before (1 time)", story: func() *story {
			return killed().ran(25, 9, 2).change(func(r *record.Run) {
				before := []record.Timed[record.ProcessState]{r.Processes[0], r.Processes[0]}
				before[0].V.PID, before[0].At = 5, sec(0.5)
				r.Processes = append(before, r.Processes[1:]...)
			})
		}},
		{name: "too late, as it had exited before the record", want: Inconclusive, says: "it had exited before (2 times)", story: func() *story {
			return killed().ran(25, 9, 3).change(func(r *record.Run) { r.Processes[0].V.Restarts = 2 })
		}},
		{name: "in time, though it had exited before the record", want: Pass, took: "2s", story: func() *story {
			return killed().ran(12, 9, 3).change(func(r *record.Run) { r.Processes[0].V.Restarts = 2 })
		}},
		{name: "never", want: Fail, took: "50s", says: "50s later it was still not running", story: killed},
		{name: "never, and the harness starts it", want: Fail, took: "20.8s", says: "it was started only after 20.8s", story: func() *story { return unhealed(killed().ran(30.8, 9, 1)) }},
		{name: "in time, yet its healing has no proof", want: Inconclusive, says: "the healing of fault \"kill\" (kill of kube-scheduler on node-2) had no proof", story: func() *story {
			return unhealed(killed().ran(12.5, 9, 1).ran(60, 9, 1))
		}},
		{name: "its machine does not tell", want: Inconclusive, says: "2s after the kill of kube-scheduler on node-2, which is less", story: func() *story { return mute(killed(), 12) }},
		{name: "its machine tells nothing from the bound on", want: Fail, took: "15s", story: func() *story { return mute(killed(), 25) }},
		{name: "its machine reports again after the bound", want: Inconclusive, says: "had reported nothing since a failed query at 12.000s", story: func() *story { return mute(killed(), 12).ran(25, 9, 1) }},
		{name: "not for long", want: Fail, says: "it was 2s after the kill", story: func() *story { return killed().ran(12, 9, 1).ran(20, 0, 1) }},
		{name: "ended by another fault", want: Pass, story: func() *story {
			return killed().fault("again", "kill", "node-2", "kube-scheduler", 20, 40).ran(12, 9, 1).ran(20.5, 0, 1)
		}},
		{name: "ended as its node is upgraded", want: Pass, took: "2s", story: func() *story {
			return killed().inPlace("", "upgrade", "node-2", "v1.36.3", "v1.37.1", 19, 25, inOrder...).ran(12, 9, 1).ran(20.5, 0, 1)
		}},
		{name: "ended before its node is upgraded", want: Fail, says: "must stay up once it is started again", story: func() *story {
			return killed().inPlace("", "upgrade", "node-2", "v1.36.3", "v1.37.1", 25, 30, inOrder...).ran(12, 9, 1).ran(20.5, 0, 1)
		}},
		{name: "ended as another node is upgraded", want: Fail, says: "must stay up once it is started again", story: func() *story {
			return killed().inPlace("", "upgrade", "node-1", "v1.36.3", "v1.37.1", 19, 25, inOrder...).ran(12, 9, 1).ran(20.5, 0, 1)
		}},
		{name: "started again as its node is upgraded", want: Inconclusive, says: "which is less than the bound", story: func() *story {
			return killed().inPlace("", "upgrade", "node-2", "v1.36.3", "v1.37.1", 15, 25, inOrder...).ran(22, 9, 1)
		}},
		{name: "seen while another fault was active", want: Pass, took: "2s", says: "within 10s (10s).", story: func() *story {
			return killed().fault("next", "kill", "node-2", "etcd", 11, 40).ran(12, 9, 1).ran(13, 0, 1).ran(24, 10, 2)
		}},
		{name: "gone for good while another fault was active", want: Inconclusive, says: "exited again at 13.000s, while another fault was active, and was not started again for 47s", story: func() *story {
			return killed().fault("next", "kill", "node-2", "etcd", 12.5, 40).ran(12, 9, 1).ran(13, 0, 1)
		}},
		{name: "gone until it is hit again", want: Pass, took: "2s", story: func() *story {
			return killed().fault("next", "kill", "node-2", "etcd", 12.5, 19).fault("again", "kill", "node-2", "kube-scheduler", 20, 40).ran(12, 9, 1).ran(13, 0, 1)
		}},
		{name: "late while another fault was active", want: Inconclusive, says: "1s after the kill of kube-scheduler on node-2, which is less", story: func() *story {
			return killed().fault("next", "isolate", "node-1", "etcd", 11, 40).ran(25, 9, 1)
		}},
		{name: "seen once it was hit again", want: Inconclusive, says: "which is less than the bound", story: func() *story {
			return killed().fault("next", "reboot", "node-2", "", 11, 40).ran(12, 9, 1)
		}},
		{name: "kept down", want: Inconclusive, says: "kept the component down", story: func() *story {
			return killed().change(func(r *record.Run) { r.Faults[0].V.Effects = effects["kill"] })
		}},
		{name: "watched too short", want: Inconclusive, says: "less than the bound", story: func() *story {
			return killed().change(func(r *record.Run) { r.EndAt = sec(15) })
		}},
		{name: "not seen before", want: Inconclusive, says: "was not seen to run", story: func() *story {
			return killed().change(func(r *record.Run) { r.Processes = r.Processes[1:] }).ran(12, 9, 1)
		}},
		{name: "another component's", want: Fail, story: func() *story {
			return killed().ran(12, 9, 1).change(func(r *record.Run) { r.Processes[2].V.Component = "etcd" })
		}},
	})
}

func TestEtcdHashes(t *testing.T) {
	hash := func(s *story, node string, hash uint32, revision, compacted int64) *story {
		s.at(58).etcd(node, "m1", 2)
		e := &s.run.Etcd[len(s.run.Etcd)-1].V
		e.Hash, e.HashRevision, e.HashCompacted = hash, revision, compacted
		return s
	}
	wide(t, "etcd-hashes", []ruling{
		{name: "equal", want: Pass, says: "3 etcd members had the same hash at revision 900", story: func() *story {
			return hash(hash(hash(newStory(), "node-1", 7, 900, 5), "node-2", 7, 900, 5), "node-3", 7, 900, 5)
		}},
		{name: "different", want: Fail, says: "at revision 900 the member on node-1 has the hash 00000007, the one on node-2 00000008", story: func() *story {
			return hash(hash(newStory(), "node-1", 7, 900, 5), "node-2", 8, 900, 5)
		}},
		{name: "equal, and a third one gave none", want: Inconclusive, says: "2 etcd members had the same hash at revision 900, but the data on node-3 was not compared with theirs", story: func() *story {
			return hash(hash(newStory().at(57).etcd("node-3", "m1", 2), "node-1", 7, 900, 5), "node-2", 7, 900, 5)
		}},
		{name: "equal, and a third one was compacted differently", want: Inconclusive, says: "the data on node-3 was not compared", story: func() *story {
			return hash(hash(hash(newStory(), "node-1", 7, 900, 5), "node-2", 7, 900, 5), "node-3", 8, 900, 6)
		}},
		{name: "equal, and a third one does not answer any more", want: Pass, says: "2 etcd members", story: func() *story {
			return hash(hash(newStory().at(40).etcd("node-3", "m1", 2), "node-1", 7, 900, 5), "node-2", 7, 900, 5).at(57).etcd("node-3", "m1", 2).change(func(r *record.Run) {
				r.Etcd[3].V.OK = false
			})
		}},
		{name: "equal, and the node of a third one has left", want: Pass, says: "2 etcd members", story: func() *story {
			s := newStory().at(51).etcd("node-3", "m1", 2).changed("", record.NodeRemoved, "node-3", "10.77.0.13", 52, 53)
			return hash(hash(s, "node-1", 7, 900, 5), "node-2", 7, 900, 5)
		}},
		{name: "different, and a third one gave none", want: Fail, story: func() *story {
			return hash(hash(newStory().at(57).etcd("node-3", "m1", 2), "node-1", 7, 900, 5), "node-2", 8, 900, 5)
		}},
		{name: "at different revisions", want: Inconclusive, story: func() *story { return hash(hash(newStory(), "node-1", 7, 900, 5), "node-2", 8, 901, 5) }},
		{name: "compacted differently", want: Inconclusive, story: func() *story { return hash(hash(newStory(), "node-1", 7, 900, 5), "node-2", 8, 900, 6) }},
		{name: "not read", want: Inconclusive, says: "of 3 etcd members", story: func() *story { return leaders(newStory()) }},
		{name: "one member", want: NotApplicable, story: func() *story { return hash(newStory(), "node-1", 7, 900, 5) }},
		{name: "never asked", want: NotApplicable, story: func() *story { return newStory() }},
	})
}

func TestEtcdAlarms(t *testing.T) {
	alarm := func(s *story, t float64) *story {
		s.at(t).etcd("node-2", "m1", 2)
		s.run.Etcd[len(s.run.Etcd)-1].V.Alarms = []string{"alarm:NOSPACE"}
		return s
	}
	base := func() *story { return leaders(newStory()).fault("fill", "fill-quota", "node-2", "etcd", 10, 30) }
	wide(t, "etcd-alarms", []ruling{
		{name: "none", story: base, want: Pass, took: "60 answers"},
		{name: "without a fault", want: Fail, says: "the one on node-2 reported alarm:NOSPACE at 5.000s", story: func() *story { return alarm(base(), 5) }},
		{name: "by a fault", want: Pass, says: "though some did while a fault was active.", story: func() *story { return alarm(base(), 20) }},
		{name: "told late", want: Pass, story: func() *story { return alarm(base(), 32) }},
		{name: "left behind", want: Fail, says: "at 40.000s", story: func() *story { return alarm(base(), 40) }},
		{name: "never asked", want: NotApplicable, story: func() *story { return newStory() }},
		{name: "never answered", want: Inconclusive, story: func() *story {
			return base().change(func(r *record.Run) {
				for i := range r.Etcd {
					r.Etcd[i].V.OK = false
				}
			})
		}},
	})
}
