package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const lockKey = "/holdfast/podmaster/kube-scheduler"

// lock reads the scheduler's lock through a member every half second.
func (s *story) lock(via, holder string, from, to float64) *story {
	for t := range steps(from, to, 0.5) {
		s.read(via, lockKey, holder, 0, t, t+0.01).purpose("lock")
		s.last().API = facts.APIEtcd
	}
	return s
}

// look is a change of the scheduler's state that was seen at t; the node had been queried half a
// second before. 0 means standby.
func (s *story) look(node string, t float64, pid int) *story {
	s.at(t).process(node, "kube-scheduler", pid)
	p := &s.run.Processes[len(s.run.Processes)-1].V
	p.Asked, p.Before, p.Standby = sec(t-0.01), sec(t-0.51), pid == 0
	return s
}

// cutOff isolates node-1 from 10 to 40 s; its scheduler exits at 14 s and that of node-2 starts
// at 18 s.
func cutOff() *story { return cutOffUntil(14) }

func cutOffUntil(end float64) *story {
	s := newStory().fault("cut", "isolate", "node-1", "", 10, 40)
	s.look("node-1", 1, 7).look("node-2", 1, 0).look("node-3", 1, 0)
	s.lock("node-2", "node-1", 2, 16).lock("node-2", "", 16, 17).lock("node-2", "node-2", 17, 58)
	s.look("node-1", end, 0).look("node-2", 18, 9).look("node-2", 59, 9)
	return s
}

func TestSupervised(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-011", Judge: "supervised", Fault: "cut", Bound: "L + P + M"}, []ruling{
		{name: "handed over", story: cutOff, want: Pass, took: "8s",
			says: "After the isolation of node-1, kube-scheduler ran on node-2 after 8s, within 19s (L + P + M"},
		{name: "never stopped", want: Fail, says: "kube-scheduler ran on node-1 and on node-2, both from 18.000s to 58.000s", story: func() *story {
			s := cutOffUntil(0.5)
			s.run.Processes = s.run.Processes[:3]
			return s.look("node-2", 18, 9).look("node-1", 58.01, 7).look("node-2", 59, 9)
		}},
		{name: "stopped late", want: Fail, says: "kube-scheduler ran on node-1 and on node-2, both from 18.000s to 19.490s", story: func() *story { return cutOffUntil(20) }},
		{name: "stopped after its lock was free", want: Fail,
			says:  "ran on node-1 while its lock was held by no node, as read from 16.000s to 16.010s",
			story: func() *story { return cutOffUntil(17) }},
		{name: "stopped late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return cutOffUntil(20).change(func(r *record.Run) { r.Harness[12].V.Late = 3 * time.Second })
		}},
		{name: "stopped after its lock was free, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return cutOffUntil(17).change(func(r *record.Run) { r.Harness[12].V.Late = 3 * time.Second })
		}},
		{name: "never stopped, harness starved", want: Fail, says: "both from 18.000s to 39.490s", story: func() *story {
			return cutOffUntil(40).change(func(r *record.Run) { r.Harness[12].V.Late = 3 * time.Second })
		}},
		{name: "may have stopped in time", story: func() *story { return cutOffUntil(16.4) }, want: Pass},
		{name: "its node did not tell in between", want: Pass, story: func() *story {
			s := cutOffUntil(30)
			s.run.Processes[3].V.Before = sec(15)
			return s
		}},
		{name: "its node did not tell, and it is the same process", want: Fail, says: "on node-1 and on node-2", story: func() *story {
			s := cutOffUntil(50)
			s.run.Processes[3].V.PID, s.run.Processes[3].V.Before = 7, sec(15)
			return s
		}},
		{name: "its node did not tell, and the number is another process's", want: Pass, story: func() *story {
			s := cutOffUntil(58.5)
			s.run.Processes[3].V.PID, s.run.Processes[3].V.StartTicks, s.run.Processes[3].V.Before = 7, 99, sec(15)
			return s
		}},
		{name: "runs on a loser", want: Fail, says: "ran on node-3 while its lock was held by node-1", story: func() *story {
			s := cutOff()
			s.run.Processes = append([]record.Timed[record.ProcessState]{}, s.run.Processes...)
			return s.look("node-3", 3, 5).look("node-3", 5, 0).change(func(r *record.Run) {
				// The one on node-1 was seen later: it is not known that both ran at the same
				// time.
				r.Processes[0].At = sec(6)
			})
		}},
		{name: "too late", want: Fail, says: "kube-scheduler ran on node-2 after 22s", took: "22s", story: func() *story {
			s := cutOff()
			s.run.Processes = s.run.Processes[:4]
			return s.look("node-2", 32, 9)
		}},
		{name: "too late, on an overloaded machine", want: Inconclusive, says: "starved", story: func() *story {
			s := cutOff()
			s.run.Processes = s.run.Processes[:4]
			s.run.Harness[20].V.Late = 5 * time.Second
			return s.look("node-2", 32, 9)
		}},
		{name: "never taken over", want: Fail, says: "kube-scheduler did not run on one for 30s", story: func() *story {
			s := cutOff()
			s.run.Processes = s.run.Processes[:4]
			return s
		}},
		{name: "taken over, and stopped at once", want: Fail, took: "21.5s", says: "kube-scheduler had exited on node-2 at 18.500s, and ran on no node but node-1 for 21.5s", story: func() *story {
			s := cutOff()
			s.run.Processes = s.run.Processes[:5]
			return s.look("node-2", 18.5, 0)
		}},
		{name: "taken over, stopped and started again", want: Pass, story: func() *story {
			s := cutOff()
			s.run.Processes = s.run.Processes[:5]
			return s.look("node-2", 18.5, 0).look("node-2", 30, 10).look("node-2", 59, 10)
		}},
		{name: "healed before the bound", want: Inconclusive, says: "lasted for 5s only", story: func() *story {
			s := newStory().fault("cut", "isolate", "node-1", "", 10, 15).lock("node-2", "node-1", 2, 30)
			return s.look("node-1", 1, 7).look("node-1", 14, 0)
		}},
		{name: "another node held it", want: Inconclusive, says: "no component's lock was seen to be held by node-1 before the isolation of node-1", story: func() *story {
			return newStory().fault("cut", "isolate", "node-1", "", 10, 40).lock("node-2", "node-3", 2, 50).look("node-3", 1, 7)
		}},
		{name: "a reading that failed is no witness", want: Pass, story: func() *story {
			return cutOff().read("node-1", lockKey, "node-3", 0, 5, 7).purpose("lock").outcome(record.Unknown)
		}},
		{name: "locks not read", want: Inconclusive, says: "no reading of a lock", story: func() *story {
			return newStory().fault("cut", "isolate", "node-1", "", 10, 40).look("node-1", 1, 7)
		}},
	})
}

// A component that stands by is down on purpose, unless it does so everywhere.
func TestStandingBy(t *testing.T) {
	standing := func(nodes ...string) *story {
		s := complete().change(func(r *record.Run) {
			r.Processes = slices.DeleteFunc(r.Processes, func(p record.Timed[record.ProcessState]) bool {
				return p.V.Component == "kube-scheduler" && slices.Contains(nodes, p.V.Node)
			})
		})
		for _, n := range nodes {
			s.look(n, 4, 0)
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-TOP-002", Judge: "control-plane-complete"}, []ruling{
		{name: "on two nodes", want: Pass, took: "7 of 7 processes, 4 of 4 entrances", story: func() *story {
			return standing("node-1", "node-3")
		}},
		{name: "everywhere", want: Fail, says: "kube-scheduler stands by on every node", story: func() *story {
			return standing("node-1", "node-2", "node-3")
		}},
	})
	rule(t, record.Check{Requirement: "HA-LE-001", Judge: "single-holder"}, []ruling{
		{name: "has no lease", want: Pass, took: "1 of 1 components", story: func() *story {
			return elected("kube-controller-manager").lock("node-1", "node-2", 1, 20)
		}},
	})
}
