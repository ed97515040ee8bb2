package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// backend is what the balancer reports about a backend.
func (s *story) backend(name string, up bool, since float64) *story {
	return add(s, &s.run.Backends, record.Backend{Name: name, Up: up, Since: sec(since)})
}

// silence is a balancer that reports nothing from now on.
func silence(s *story) *story {
	return add(s, &s.run.Backends, record.Backend{Error: "no answer"})
}

func TestBackendReturned(t *testing.T) {
	// It is down from 12 s on, and back at 31 s.
	killed := func() *story {
		return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30).
			at(1).backend("node-1", true, 0).backend("node-2", true, 0).at(12.2).backend("node-2", false, 12)
	}
	rule(t, record.Check{Requirement: "HA-CL-005", Judge: "backend-returned", Fault: "kill", Bound: "H + M"}, []ruling{
		{name: "as it should be", want: Pass, took: "1.5s", says: "used node-2 again 1.5s after its return, within 4s", story: func() *story { return killed().at(33).backend("node-2", true, 32.5) }},
		{name: "a balancer that does not know when", want: Pass, took: "2s", story: func() *story { return killed().at(33).backend("node-2", true, 0) }},
		{name: "before the proof", want: Pass, took: "0s", story: func() *story { return killed().at(30.9).backend("node-2", true, 30.5) }},
		{name: "too late", want: Fail, took: "9s", says: "it used node-2 after 9s", story: func() *story { return killed().at(40.2).backend("node-2", true, 40) }},
		{name: "never", want: Fail, took: "29s", says: "it did not use node-2 for 29s", story: killed},
		{name: "another one is no help", want: Fail, says: "did not use node-2", story: func() *story { return killed().at(33).backend("node-1", true, 32.5) }},
		{name: "not for long", want: Fail, says: "and stopped using it at 40.000s", story: func() *story {
			return killed().at(33).backend("node-2", true, 32.5).at(40).backend("node-2", false, 40)
		}},
		{name: "given up for another fault", want: Pass, story: func() *story {
			return killed().at(33).backend("node-2", true, 32.5).fault("again", "kill", "node-2", "kube-apiserver", 38, 45).at(40).backend("node-2", false, 40)
		}},
		{name: "given up as its node is changed in place", want: Pass, story: func() *story {
			return killed().at(33).backend("node-2", true, 32.5).inPlace("", "reconfigure", "node-2", "", "", 38, 45, "kube-apiserver").at(40).backend("node-2", false, 40)
		}},
		{name: "given up before its node is changed in place", want: Fail, says: "and stopped using it at 36.000s", story: func() *story {
			return killed().at(33).backend("node-2", true, 32.5).at(36).backend("node-2", false, 36).inPlace("", "reconfigure", "node-2", "", "", 38, 45, "kube-apiserver")
		}},
		{name: "given up as its node leaves", want: Pass, story: func() *story {
			return killed().at(33).backend("node-2", true, 32.5).changed("", record.NodeRemoved, "node-2", "10.77.0.12", 38, 45).at(40).backend("node-2", false, 40)
		}},
		{name: "another node has the virtual IP", want: NotApplicable, says: "The API server on node-2 is on standby after its return", story: func() *story {
			return killed().at(32).standby("node-2", 12)
		}},
		{name: "another node has the virtual IP, and had it before", want: NotApplicable, story: func() *story {
			return killed().change(func(r *record.Run) { r.Backends[1].V = record.Backend{Name: "node-2", Standby: true} }).at(32).standby("node-2", 12)
		}},
		{name: "it takes the virtual IP back", want: Pass, took: "2s", story: func() *story {
			return killed().at(32).standby("node-2", 12).at(33).backend("node-2", true, 0)
		}},
		{name: "it takes the virtual IP back too late", want: Fail, says: "it used node-2 after 9s", story: func() *story {
			return killed().at(32).standby("node-2", 12).at(40.2).backend("node-2", true, 40)
		}},
		{name: "not ready, though another node has the virtual IP", want: Fail, says: "did not use node-2 for 29s", story: func() *story {
			return killed().at(32).backend("node-2", false, 12)
		}},
		{name: "on standby for a moment, and not ready from then on", want: Fail, says: "did not use node-2 for 29s", story: func() *story {
			return killed().at(32).standby("node-2", 12).at(35).backend("node-2", false, 12)
		}},
		{name: "watched too short", want: Inconclusive, says: "which is less than the bound", story: func() *story {
			return killed().change(func(r *record.Run) { r.EndAt = sec(33) })
		}},
		{name: "silent when it would be used again", want: Inconclusive, says: "when it last reported, 1s after it was back, which is less than the bound", story: func() *story {
			return silence(killed().at(32))
		}},
		{name: "silent after the bound", want: Fail, took: "9s", says: "did not use node-2 for 9s", story: func() *story { return silence(killed().at(40)) }},
		{name: "told again after the bound", want: Inconclusive, says: "had reported nothing since a failed query at 32.000s", story: func() *story {
			return silence(killed().at(32)).at(40).backend("node-2", true, 0)
		}},
		{name: "told again, by the balancer's word in time", want: Pass, took: "1.5s", story: func() *story {
			return silence(killed().at(32)).at(40).backend("node-2", true, 32.5)
		}},
		{name: "told again, and not used yet", want: Fail, took: "14s", story: func() *story {
			return silence(killed().at(32)).at(40).backend("node-2", false, 12).at(45).backend("node-2", true, 0)
		}},
		{name: "never given up", want: Inconclusive, says: "was not seen to stop using node-2", story: func() *story {
			return killed().change(func(r *record.Run) { r.Backends = r.Backends[:2] })
		}},
		{name: "nothing told", want: Inconclusive, says: "reported nothing", story: func() *story {
			return killed().change(func(r *record.Run) { r.Backends = nil })
		}},
		{name: "one that cannot tell", want: NotApplicable, says: "does not report which API servers it uses: it has no state page.", story: func() *story {
			return killed().change(func(r *record.Run) {
				r.Backends = r.Backends[:1]
				r.Backends[0].V = record.Backend{Missing: "it has no state page"}
			})
		}},
		{name: "no balancer", want: NotApplicable, says: "has no load balancer", story: func() *story {
			return killed().change(func(r *record.Run) { r.Backends, r.Meta.Entrances = nil, r.Meta.Entrances[1:] })
		}},
		{name: "a balancer that fell silent", want: Pass, took: "2s", story: func() *story {
			s := killed().at(32)
			return add(s, &s.run.Backends, record.Backend{Error: "refused"}).at(33).backend("node-2", true, 0)
		}},
		{name: "another backend", want: Inconclusive, says: `reported nothing about a backend "node-2"`, story: func() *story {
			return killed().change(func(r *record.Run) { r.Backends = r.Backends[:1] })
		}},
		{name: "a starved harness", want: Inconclusive, says: "starved", story: func() *story {
			return killed().at(40.2).backend("node-2", true, 40).change(func(r *record.Run) { r.Harness[35].V.Late = 2 * time.Second })
		}},
	})
}

// TestBalancerRestarted: the balancer's process is known under its host's name.
func TestBalancerRestarted(t *testing.T) {
	killed := func() *story {
		return newStory().fault("kill", "kill", "", "load-balancer", 10, 30).change(func(r *record.Run) {
			for i := range r.Faults {
				r.Faults[i].V.Effects, r.Faults[i].V.Host = []record.Effect{record.EffectRestarted}, "balancer"
			}
		}).at(1).process("balancer", "load-balancer", 7).at(10.2).process("balancer", "load-balancer", 0)
	}
	rule(t, record.Check{Requirement: "HA-CL-007", Judge: "restarted", Fault: "kill", Bound: "10s"}, []ruling{
		{name: "as it should be", want: Pass, took: "1s", says: "load-balancer on balancer was started again 1s after the kill of load-balancer", story: func() *story {
			return killed().at(11).process("balancer", "load-balancer", 9)
		}},
		{name: "never", want: Fail, says: "load-balancer on balancer must be started again within 10s", story: killed},
	})
}

func (s *story) session(member string, start, end float64) *story {
	s.now = sec(end)
	return add(s, &s.run.Sessions, record.Session{Client: "harness", Member: member, Start: sec(start), End: sec(end)})
}

func TestSessionAffinity(t *testing.T) {
	// The client is on node-2's member, which is killed at 10 s, and on node-3's then.
	killed := func() *story {
		return leaders(newStory()).fault("second", "kill", "node-2", "etcd", 10, 20).
			session("m2", 5, 5.1).session("m2", 9, 9.1).session("", 10.2, 10.3).session("m3", 11, 11.1)
	}
	rule(t, record.Check{Requirement: "HA-CL-011", Judge: "session-affinity", Params: map[string]string{"faults": "second"}}, []ruling{
		{name: "as it should be", want: Pass, took: "1.1s", says: "In 4 requests", story: func() *story { return killed().session("m3", 30, 30.1) }},
		{name: "under way when it was killed", want: Pass, story: func() *story { return killed().session("m3", 9.5, 10.2) }},
		{name: "back to one that lives again", want: Fail, says: "harness was on the member on node-3 at 11.000s and moved to that on node-2 at 30.000s", story: func() *story {
			return killed().session("m2", 30, 30.1)
		}},
		{name: "left one that lives", want: Fail, says: "was on the member on node-2 at 5.000s and moved to that on node-1 at 7.000s", story: func() *story {
			return killed().session("m1", 7, 7.1)
		}},
		{name: "another client has another member", want: Pass, story: func() *story {
			s := killed().session("m1", 7, 7.1)
			s.run.Sessions[len(s.run.Sessions)-1].V.Client = "workers"
			return s
		}},
		{name: "its own was not killed", want: Inconclusive, says: "no member that a client was on died", story: func() *story {
			return leaders(newStory()).fault("second", "kill", "node-2", "etcd", 10, 20).session("m1", 5, 5.1).session("m1", 30, 30.1)
		}},
		{name: "no answer", want: Inconclusive, says: "was answered", story: func() *story {
			return leaders(newStory()).fault("second", "kill", "node-2", "etcd", 10, 20).session("", 5, 5.1)
		}},
		{name: "another component's death", want: Fail, says: "no fault had stopped the first one", story: func() *story {
			return killed().change(func(r *record.Run) {
				r.Faults[0].V.Component, r.Faults[1].V.Component = "kube-apiserver", "kube-apiserver"
			})
		}},
		{name: "a fault of the node that ends nothing", want: Fail, says: "no fault had stopped the first one", story: func() *story {
			return killed().change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects, r.Faults[i].V.Component = []record.Effect{record.EffectNetwork}, ""
				}
			})
		}},
		{name: "a death that the check does not name", want: Fail, says: "no fault had stopped the first one", story: func() *story {
			return killed().session("m3", 25, 25.1).fault("other", "kill", "node-3", "etcd", 30, 40).session("m1", 31, 31.1)
		}},
		{name: "no answer any more", want: Fail, says: "harness was on the member on node-2, and after the kill of etcd on node-2, 2 requests, from 4s", story: func() *story {
			return killed().change(func(r *record.Run) { r.Sessions = r.Sessions[:3] }).session("", 15, 17).session("", 17, 19).session("m3", 21, 21.1)
		}},
		{name: "no answer before the balancer could know", want: Inconclusive, says: "and made too few requests", story: func() *story {
			return killed().change(func(r *record.Run) { r.Sessions = r.Sessions[:3] }).session("", 12, 13.9).session("", 17, 19).session("m3", 21, 21.1)
		}},
		{name: "an unknown member", want: Inconclusive, says: "does not show which node has member m9", story: func() *story {
			return killed().session("m9", 1, 1.1)
		}},
	})
}
