package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// cameAndWent is a record in which the load balancer goes with the last but one of three
// nodes, at 30 s, and comes with the second, at 50 s, each time a second later.
func cameAndWent() *story {
	s := newStory().runs(1, "balancer", "load-balancer", 7)
	s.changed("two", record.NodeRemoved, "node-3", "10.77.0.13", 18, 20)
	s.changed("one", record.NodeRemoved, "node-2", "10.77.0.12", 28, 30).steps("balancer", 28, record.StepBalancerEnd)
	s.runs(31, "balancer", "load-balancer", 0)
	s.changed("second", record.NodeAdded, "node-4", "10.77.0.14", 45, 50)
	return s.runs(51, "balancer", "load-balancer", 9).runs(60, "balancer", "load-balancer", 9)
}

func TestBalancerFollows(t *testing.T) {
	// with changes the process seen at a time: PID 0 means that it was not running, a negative
	// one that the node did not answer.
	with := func(at float64, pid int) func() *story {
		return func() *story {
			return cameAndWent().change(func(r *record.Run) {
				for i := range r.Processes {
					if p := &r.Processes[i]; p.At == sec(at) {
						if p.V.PID = max(pid, 0); pid < 0 {
							p.V.Error = "no answer"
						}
					}
				}
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-006", Judge: "balancer-follows", Bound: "M"}, []ruling{
		{name: "it comes and goes", want: Pass, took: "3 changes", says: "did not run after each of 1", story: cameAndWent},
		{name: "it never goes", want: Fail, says: "with 1 control-plane node after the removal of node-2, it ran", story: with(31, 7)},
		{name: "it does not come", want: Fail, says: "with 2 control-plane nodes after the addition of node-4, it did not run", story: with(51, 0)},
		{name: "it comes in time, and is next seen later", want: Pass, story: func() *story {
			s := with(51, 0)().runs(52.3, "balancer", "load-balancer", 9)
			s.run.Processes[len(s.run.Processes)-1].V.Before = sec(51.8)
			return s.at(60)
		}},
		{name: "it is late, as was seen at the end of the bound", want: Fail, says: "did not run when it was checked at 52.000s", story: func() *story {
			s := with(51, 0)().runs(52.3, "balancer", "load-balancer", 9)
			s.run.Processes[len(s.run.Processes)-1].V.Before = sec(52.1)
			return s.at(60)
		}},
		{name: "it is late", want: Fail, says: "did not run when it was checked at 52.000s", story: func() *story {
			s := with(51, 0)().runs(53, "balancer", "load-balancer", 9)
			return s.at(60)
		}},
		{name: "it comes back by itself", want: Fail, says: "it ran when it was checked at 40.000s", story: func() *story {
			return cameAndWent().change(func(r *record.Run) {
				again := r.Processes[1]
				again.At, again.V.PID = sec(40), 8
				r.Processes = append(r.Processes[:2:2], append([]record.Timed[record.ProcessState]{again}, r.Processes[2:]...)...)
			})
		}},
		{name: "nothing is known", want: Inconclusive, says: "is not known whether", story: with(31, -1)},
		{name: "it was not there before, either", want: Fail, says: "after the removal of node-3", story: with(1, 0)},
		{name: "never one node", want: Inconclusive, says: "led to one node 0 times", story: func() *story {
			return newStory().runs(1, "balancer", "load-balancer", 7).changed("two", record.NodeRemoved, "node-3", "10.77.0.13", 18, 20).at(60)
		}},
		{name: "no changes", want: Inconclusive, story: func() *story { return newStory().runs(1, "balancer", "load-balancer", 7) }},
	})
	wide(t, "restarts", []ruling{
		{name: "the load balancer goes with the last but one node", want: Pass, story: cameAndWent},
		{name: "the load balancer ends without that", want: Fail, says: "load-balancer on balancer", story: func() *story {
			return cameAndWent().change(func(r *record.Run) { r.Steps = nil })
		}},
	})
}
