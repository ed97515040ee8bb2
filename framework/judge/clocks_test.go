package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// moved has a fault move the clock of a node, and so the stamps in its audit log, by some seconds.
func (s *story) moved(id, node string, offset, from, to float64) *story {
	s.fault(id, "clock-jump", node, "", from, to)
	for i := range s.run.Actions {
		if a := &s.run.Actions[i]; a.V.Via == node && a.At > sec(from) && a.At < sec(to) {
			a.V.Received, a.V.Completed = a.V.Received+sec(offset), a.V.Completed+sec(offset)
		}
	}
	return s
}

// apart has node-2, whose clock is behind, be active until 18 s, and node-3, whose clock is ahead,
// from some time on.
func apart(from float64) *story {
	s := newStory().renews("node-2", 1, 18).renews("node-3", from, 56).probes("node-2", true, 1, 58).probes("node-3", true, 1, 58)
	for t := range steps(3, 18, 1) {
		s.action("node-2", t)
	}
	for t := range steps(from+1, 50, 1) {
		s.action("node-3", t)
	}
	return s
}

// clocked moves the clocks of both.
func clocked(s *story) *story {
	return s.moved("behind", "node-2", -60, 10, 57).moved("ahead", "node-3", 60, 11, 57)
}

// offset has the last fault say what it did.
func offset(d time.Duration) func(*record.Fault) {
	return func(f *record.Fault) { f.Params = map[string]string{"offset": d.String()} }
}

func TestOneActorClocksApart(t *testing.T) {
	// both has the one that is behind continue when the other one has seized the lease.
	both := func() *story {
		s := apart(20)
		for t := range steps(19, 50, 1) {
			s.action("node-2", t)
		}
		return clocked(s)
	}
	lone := func(t float64) *story { return succession().action("node-2", t).moved("behind", "node-2", -60, 40, 57) }
	wide(t, "one-actor", []ruling{
		{name: "both act", want: Fail, story: both,
			says: "the one on node-3 had taken over by 20.110s, and the one on node-2, which had renewed its lease last at 17.110s, acted at 32.100s"},
		{name: "both act, and the faults say by how much", want: Fail, says: "had taken over by 20.010s, and the one on node-2, which had renewed its lease last at 17.010s, acted at 32.000s", story: func() *story {
			return both().change(func(r *record.Run) {
				for i := range r.Faults {
					offset(map[string]time.Duration{"behind": -time.Minute, "ahead": time.Minute}[r.Faults[i].V.ID])(&r.Faults[i].V)
				}
			})
		}},
		{name: "by turns, each taking the lease from the other", want: Fail, says: "took its lease from each other alternately", story: func() *story { return clocked(stealing(2).moved("more", "node-1", 30, 10, 57)) }},
		{name: "one after another", want: Pass, took: "30 actions", says: "kube-scheduler on node-2 (15 actions), then on node-3 (15 actions)", story: func() *story { return clocked(apart(34)) }},
		{name: "one after another, and clocks are as they were", want: Pass, took: "30 actions", story: func() *story { return apart(34) }},
		{name: "once, and it is not known by how much the clock was moved", want: Inconclusive, says: "the clock of the API server on node-2 does not agree with the harness's, by which kube-scheduler on node-2 acted", story: func() *story { return lone(45) }},
		{name: "once, and the fault says by how much", want: Fail, says: "acted at 45.000s", story: func() *story { return lone(45).lastFault(offset(-time.Minute)) }},
		{name: "once, and the fault says less", want: Inconclusive, says: "does not agree with the harness's", story: func() *story { return lone(45).lastFault(offset(-30 * time.Second)) }},
		{name: "once, while the clock was being moved", want: Pass, story: func() *story { return lone(41) }},
		{name: "an act that was logged late", want: Pass, story: func() *story {
			s := apart(34).action("node-2", 12).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(40) })
			for t := range steps(38, 42, 1) {
				s.action("node-2", t).lastAction(func(a *record.Timed[record.Action]) { a.V.Component = "kube-controller-manager" })
			}
			return clocked(s)
		}},
		{name: "the old one, whose own clock was moved, but not that of its API server", want: Fail, says: "acted at 42.000s", story: func() *story {
			return succession().fault("clock", "clock-jump", "node-2", "kube-scheduler", 11, 57).action("node-2", 42)
		}},
		{name: "a holder of which the audit log has nothing, and its clock was moved", want: Inconclusive, says: "does not show what kube-scheduler on node-1 did", story: func() *story {
			return succession().moved("clock", "node-1", 60, 9, 57).at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16)
		}},
	})
}

func TestLeaseKeptClocksApart(t *testing.T) {
	check := record.Check{Requirement: "HA-LE-012", Judge: "active-again", Fault: "ahead", Bound: "R", Params: map[string]string{"component": "kube-scheduler", "kept": "true"}}
	story := func(until float64) func() *story {
		return func() *story {
			s := newStory().fault("behind", "clock-jump", "node-2", "", 8, 56).fault("ahead", "clock-jump", "node-3", "", 14, 56).fault("kill", "kill", "node-2", "kube-scheduler", 24, 50)
			return s.led("node-2_x", 0, 1, until).led("node-3_y", 1, until, 58)
		}
	}
	rule(t, check, []ruling{
		{name: "kept until the holder is killed", want: Pass, story: story(30)},
		{name: "seized by the one that is ahead", want: Fail, says: "must not cost a holder its lease: node-2_x on node-2 held that of kube-scheduler, and at 18.000s the holder was \"node-3_y\"", story: story(18)},
	})
}
