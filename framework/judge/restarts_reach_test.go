package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// led has an instance hold the scheduler's lease between two times.
func (s *story) led(holder string, transitions int, from, to float64) *story {
	for t := range steps(from, to, 1) {
		s.at(t).lease("kube-scheduler", holder, 100+int(t), t)
		s.run.Leases[len(s.run.Leases)-1].V.Transitions = transitions
	}
	return s
}

// lastFault lets a case change the last fault.
func (s *story) lastFault(f func(*record.Fault)) *story {
	for i := range s.run.Faults[len(s.run.Faults)-2:] {
		f(&s.run.Faults[len(s.run.Faults)-2+i].V)
	}
	return s
}

// TestRestartsOfStandbys is about exits of the scheduler on node-2, with faults on other nodes.
func TestRestartsOfStandbys(t *testing.T) {
	const unreached = "kube-scheduler on node-2 had exited and been started again when it was checked at 12.000s, and no active fault reached it"
	while := func(fault, node, component string) *story {
		return newStory().fault("fault", fault, node, component, 10, 20).ran(1, 7, 0).ran(12, 9, 1)
	}
	standby := func(fault, node, component string) func() *story {
		return func() *story { return while(fault, node, component).led("node-1_x", 0, 1, 58) }
	}
	holder := func(fault, node, component string) func() *story {
		return func() *story { return while(fault, node, component).led("node-2_x", 0, 1, 58) }
	}
	// late has the fault from 40 to 50 s, and another holder since some time.
	late := func(since float64) *story {
		return newStory().fault("fault", "kill", "node-3", "etcd", 40, 50).ran(1, 7, 0).ran(42, 9, 1).
			led("node-2_x", 0, 1, since).led("node-1_x", 1, since, 58)
	}
	wide(t, "restarts", []ruling{
		{name: "a standby while another etcd member was killed", want: Fail, says: unreached, story: standby("kill", "node-3", "etcd")},
		{name: "the holder while another etcd member was killed", want: Pass, story: holder("kill", "node-3", "etcd")},
		{name: "a standby while an API server elsewhere was killed", want: Fail, says: unreached, story: standby("kill", "node-1", "kube-apiserver")},
		{name: "the holder while an API server elsewhere was killed", want: Pass, story: holder("kill", "node-1", "kube-apiserver")},
		{name: "a standby while another node was isolated", want: Fail, says: unreached, story: standby("isolate", "node-1", "")},
		{name: "the holder while another node was isolated", want: Pass, story: holder("isolate", "node-1", "")},
		{name: "a standby while the load balancer was killed", want: Fail, says: unreached, story: standby("kill", "", "load-balancer")},
		{name: "a standby while the disk of another member was slow", want: Fail, says: unreached, story: standby("disk-slow", "node-1", "etcd")},
		{name: "the holder while the disk of another member was slow", want: Pass, story: holder("disk-slow", "node-1", "etcd")},
		{name: "a standby while a clock elsewhere was moved", want: Fail, says: unreached, story: standby("clock-jump", "node-1", "")},
		{name: "the holder while a clock elsewhere was moved", want: Pass, story: holder("clock-jump", "node-1", "")},
		{name: "the holder while the clock of a standby was moved", want: Pass, story: holder("clock-jump", "node-1", "kube-scheduler")},
		{name: "a standby while a fault acted on its node", want: Pass, story: standby("kill", "node-2", "kube-apiserver")},
		{name: "a standby while its lease was stolen", want: Pass, story: standby("lease-steal", "node-1", "kube-scheduler")},
		{name: "a standby while an older state was restored", want: Pass, story: standby("restore-snapshot", "node-1", "etcd")},
		{name: "a standby while a fault had unknown effects", want: Pass, story: standby("something", "node-1", "etcd")},
		{name: "a standby while quorum was lost", want: Pass, story: func() *story {
			return standby("kill", "node-1", "etcd")().fault("two", "kill", "node-3", "etcd", 11, 19)
		}},
		{name: "one that had held the lease until shortly before", want: Pass, story: func() *story { return late(30) }},
		{name: "one that had held the lease long before", want: Fail, says: "no active fault reached it", story: func() *story { return late(20) }},
		{name: "one that renewed the lease, as an audit log shows", want: Pass, story: func() *story { return late(20).renews("node-2", 35, 36) }},
		{name: "the lease was not watched until then", want: Pass, story: func() *story {
			return late(20).change(func(r *record.Run) { r.Leases = r.Leases[:25] })
		}},
		{name: "the lease was watched until shortly before", want: Fail, says: "no active fault reached it", story: func() *story {
			return late(20).change(func(r *record.Run) { r.Leases = r.Leases[:30] })
		}},
		{name: "others may have held the lease unseen", want: Pass, story: func() *story {
			return newStory().fault("fault", "kill", "node-3", "etcd", 10, 20).ran(1, 7, 0).ran(12, 9, 1).led("node-1_x", 0, 1, 11).led("node-1_x", 2, 11, 58)
		}},
		{name: "the lease was deleted and created", want: Pass, story: func() *story {
			return newStory().fault("fault", "kill", "node-3", "etcd", 10, 20).ran(1, 7, 0).ran(12, 9, 1).led("node-1_x", 4, 1, 11).led("node-1_x", 0, 11, 58)
		}},
		{name: "a standby that was started while the fault was active", want: Pass, story: func() *story {
			return newStory().fault("fault", "kill", "", "load-balancer", 10, 50).fault("kill", "kill", "node-2", "kube-scheduler", 11, 12).
				led("node-1_x", 0, 1, 58).ran(1, 7, 0).ran(11.2, 0, 0).ran(13, 9, 1).ran(34, 10, 2)
		}},
		{name: "a standby that a supervisor elects", want: Pass, story: func() *story {
			o := during(5, 5.1)
			o.Type, o.Entrance, o.Key, o.Purpose = record.OpGet, "node-1", "/locks/kube-scheduler", "lock"
			return standby("kill", "node-3", "etcd")().op(o)
		}},
	})
}

// TestRestartsElsewhere is about exits of other components of node-2, with faults on other nodes.
func TestRestartsElsewhere(t *testing.T) {
	const unreached = "no active fault reached it"
	exits := func(component, fault, node, on string) *story {
		s := newStory().fault("fault", fault, node, on, 10, 20).ran(1, 7, 0).ran(12, 9, 1)
		return s.change(func(r *record.Run) {
			for i := range r.Processes {
				r.Processes[i].V.Component = component
			}
		})
	}
	slow := func(component, peer string) func() *story {
		return func() *story {
			return exits(component, "latency", "node-1", "").lastFault(func(f *record.Fault) {
				f.Effects, f.Params = []record.Effect{record.EffectNetwork}, map[string]string{"peer": peer}
			})
		}
	}
	ledBy := func(s *story, leader string) *story {
		for t := range steps(0, 58, 1) {
			for _, n := range threeNodes {
				s.at(t).etcd(n, leader, 2)
			}
		}
		return s
	}
	wide(t, "restarts", []ruling{
		{name: "etcd while the disk of another member was slow", want: Fail, says: unreached, story: func() *story { return exits("etcd", "disk-slow", "node-1", "etcd") }},
		{name: "etcd while its node's API server was killed", want: Fail, says: unreached, story: func() *story { return exits("etcd", "kill", "node-2", "kube-apiserver") }},
		{name: "etcd while its node's API server was frozen", want: Fail, says: unreached, story: func() *story { return exits("etcd", "freeze", "node-2", "kube-apiserver") }},
		{name: "etcd in the process of its node's API server, which was killed", want: Pass, story: func() *story {
			return exits("etcd", "kill", "node-2", "kube-apiserver").lastFault(func(f *record.Fault) { f.Group = []string{"etcd", "kube-apiserver"} })
		}},
		{name: "etcd while its node's API server was cut off", want: Pass, story: func() *story { return exits("etcd", "black-hole", "node-2", "kube-apiserver") }},
		{name: "an API server while its node's etcd was killed", want: Pass, story: func() *story { return exits("kube-apiserver", "kill", "node-2", "etcd") }},
		{name: "etcd while its disk was slow", want: Pass, story: func() *story { return exits("etcd", "disk-slow", "node-2", "etcd") }},
		{name: "etcd while two disks were slow", want: Pass, story: func() *story {
			return exits("etcd", "disk-slow", "node-1", "etcd").fault("two", "disk-slow", "node-3", "etcd", 11, 19)
		}},
		{name: "etcd while the clock of another node was moved", want: Fail, says: unreached, story: func() *story { return exits("etcd", "clock-jump", "node-1", "") }},
		{name: "etcd while another member compacted", want: Fail, says: unreached, story: func() *story { return exits("etcd", "compact", "node-1", "etcd") }},
		{name: "etcd while some member compacted", want: Pass, story: func() *story { return exits("etcd", "compact", "", "etcd") }},
		{name: "etcd while the nodes were split", want: Pass, story: func() *story { return exits("etcd", "split", "node-1", "") }},
		{name: "etcd while a link to it was slow, by name", want: Pass, story: slow("etcd", "node-2")},
		{name: "etcd while a link to it was slow, by number", want: Pass, story: slow("etcd", "3,2")},
		{name: "etcd while a link to a zone was slow", want: Pass, story: slow("etcd", "zone/b")},
		{name: "etcd while all links of another node were slow", want: Fail, says: unreached, story: slow("etcd", "")},
		{name: "etcd while a link between others was slow", want: Fail, says: unreached, story: slow("etcd", "3")},
		{name: "etcd while the link between another node and the balancer was slow", want: Fail, says: unreached, story: slow("etcd", "balancer")},
		{name: "an API server while the disk of the leader was slow", want: Pass, story: func() *story {
			return ledBy(exits("kube-apiserver", "disk-slow", "node-1", "etcd"), "m1")
		}},
		{name: "an API server while the disk of a follower was slow", want: Fail, says: unreached, story: func() *story {
			return ledBy(exits("kube-apiserver", "disk-slow", "node-1", "etcd"), "m3")
		}},
		{name: "an API server while the disk of a member was slow", want: Pass, story: func() *story { return exits("kube-apiserver", "disk-slow", "node-1", "etcd") }},
		{name: "an API server while the leader was killed", want: Fail, says: unreached, story: func() *story {
			return ledBy(exits("kube-apiserver", "kill", "node-1", "etcd"), "m1")
		}},
		{name: "a load balancer while a link was slow", want: Pass, story: slow("load-balancer", "")},
	})
}
