package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// wide runs a table of a check of every run.
func wide(t *testing.T, name string, cases []ruling) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range Evaluate(tt.story().run) {
				if r.Judge != name {
					continue
				}
				if r.Verdict != tt.want || !strings.Contains(r.Sentence, tt.says) || tt.took != "" && r.Measured != tt.took {
					t.Errorf("verdict %q (want %q), measured %q\nsentence: %s\nwant:     %s\nevidence: %s",
						r.Verdict, tt.want, r.Measured, r.Sentence, tt.says, strings.Join(r.Evidence, "\n          "))
				}
				t.Log(r.Verdict, "-", r.Sentence)
				return
			}
			t.Errorf("no result of %s", name)
		})
	}
}

// action is one of the scheduler on a node, of 10 ms, seen 0.1 s later.
func (s *story) action(node string, t float64) *story {
	a := record.Action{Component: "kube-scheduler", Node: node, Via: node, Verb: "create", Resource: "pods", Subresource: "binding",
		Namespace: "default", Name: "p", Code: 201, Received: sec(t), Completed: sec(t + 0.01)}
	s.at(t + 0.11)
	return add(s, &s.run.Actions, a)
}

// renews has a node renew, or acquire, the scheduler's lease every 2 s.
func (s *story) renews(node string, from, to float64) *story {
	for t := range steps(from, to, 2) {
		s.action(node, t)
		a := &s.run.Actions[len(s.run.Actions)-1].V
		a.Election, a.Verb, a.Resource, a.Subresource, a.Name, a.Code = true, "update", "coordination.k8s.io/leases", "", "kube-scheduler", 200
	}
	return s
}

// lastAction lets a case change the last action.
func (s *story) lastAction(f func(*record.Timed[record.Action])) *story {
	f(&s.run.Actions[len(s.run.Actions)-1])
	return s
}

// readLate has the last action be read at some time, by when the log of its API server has another
// entry: its clock agrees.
func (s *story) readLate(t float64) *story {
	a := &s.run.Actions[len(s.run.Actions)-1]
	a.At = sec(t)
	via := a.V.Via
	return s.action(via, t-0.1).lastAction(func(a *record.Timed[record.Action]) { a.V.Component, a.V.Via = "kube-controller-manager", via })
}

// unread has the log of node-2 be read at 40 s for the first time since 20 s, and node-3 take the
// lease of node-2 over at 39 s because of a fault.
func unread() *story {
	s := newStory().renews("node-2", 1, 39).renews("node-3", 39, 58).probes("node-2", true, 1, 58).action("node-2", 44).fault("steal", "lease-steal", "node-2", "kube-scheduler", 38.5, 50)
	for i := range s.run.Actions {
		if a := &s.run.Actions[i]; a.V.Via == "node-2" && a.V.Received > sec(20) && a.V.Received < sec(40) {
			a.At = sec(40)
		}
	}
	return s
}

// electedAhead is succession, in which the clock of node-3 is ahead when node-3 takes over.
func electedAhead(by float64) *story {
	s := succession()
	first := slices.IndexFunc(s.run.Actions, func(a record.Timed[record.Action]) bool { return a.V.Node == "node-3" })
	s.run.Actions[first].At = s.run.Actions[first].V.Completed - sec(by)
	return s
}

// unowned makes an action come from an address that is not a node's.
func unowned(a *record.Timed[record.Action]) { a.V.Node = "" }

// succession has node-2 be active until 10 s and node-3 from 26 s on; all API
// servers answer throughout.
func succession() *story {
	s := newStory().renews("node-2", 1, 10).action("node-2", 3).action("node-2", 8).renews("node-3", 26, 58).action("node-3", 27).action("node-3", 50)
	for _, n := range []string{"node-1", "node-2", "node-3"} {
		s.probes(n, true, 1, 58)
	}
	return s
}

// unelected has three instances act without any election.
func unelected() *story {
	s := newStory()
	for i, n := range []string{"node-1", "node-2", "node-3"} {
		s.probes(n, true, 1, 58).at(1).process(n, "kube-scheduler", 30+i)
	}
	return s.action("node-1", 10).action("node-2", 20).action("node-1", 30)
}

// stealing has node-1 and node-2 take the scheduler's lease from each other, and act, by
// turns; the time between is in seconds.
func stealing(every float64) *story {
	s := newStory()
	for i, n := range []string{"node-1", "node-2"} {
		s.probes(n, true, 1, 58).at(1).process(n, "kube-scheduler", 30+i)
	}
	for t := range steps(5, 50, 2*every) {
		s.renews("node-1", t, t+1).action("node-1", t+0.1).renews("node-2", t+every, t+every+1).action("node-2", t+every+0.1)
	}
	return s
}

func TestOneActor(t *testing.T) {
	// zone has the nodes of a zone be frozen and thawed as a whole, and node-2 act after that.
	zone := func(acts float64) *story {
		return succession().fault("freeze", "freeze", "", "", 11, 40).action("node-2", acts).change(func(r *record.Run) {
			for i := range r.Faults {
				r.Faults[i].V.Target, r.Faults[i].V.Nodes = "zone/b", []string{"node-1", "node-2"}
			}
		})
	}
	wide(t, "one-actor", []ruling{
		{name: "one after another", story: succession, want: Pass, took: "4 actions",
			says: "One instance of each elected component acted at a time: kube-scheduler on node-2 (2 actions), then on node-3 (2 actions)."},
		{name: "one after another, by clocks that NTP keeps", want: Pass, took: "4 actions", story: func() *story { return electedAhead(0.05) }},
		{name: "one after another, elected by a clock that is ahead", want: Inconclusive, says: "the clock of the API server on node-3 does not agree", story: func() *story { return electedAhead(0.5) }},
		{name: "elected by a clock that is ahead, and the old one acts long after", want: Fail, says: "the one on node-2, which had renewed its lease last at 9.010s, acted at 50.500s", story: func() *story {
			return electedAhead(0.5).action("node-2", 50.5)
		}},
		{name: "all audit logs are read to the end", want: Pass, story: func() *story { return succession().heard(threeNodes...) }},
		{name: "an audit log that is not read to the end", want: Inconclusive, says: "the audit log of the API server on node-2 was not read to the end, and may contain more actions of elected components", story: func() *story {
			return succession().heard("node-1", "node-3").logsRead(0, 20, "node-2")
		}},
		{name: "the audit log of a node that joined is not read to the end", want: Inconclusive, says: "the audit log of the API server on node-4 was not read to the end", story: func() *story {
			return succession().heard(threeNodes...).changed("fourth", record.NodeAdded, "node-4", "10.77.0.14", 10, 14).probes("node-4", true, 15, 58).logsRead(15, 25, "node-4")
		}},
		{name: "the audit log of a node that joined is read to the end", want: Pass, story: func() *story {
			return succession().heard(threeNodes...).changed("fourth", record.NodeAdded, "node-4", "10.77.0.14", 10, 14).probes("node-4", true, 15, 58).logsRead(15, 60, "node-4")
		}},
		{name: "the audit log of a node that left is read until then", want: Pass, story: func() *story {
			return succession().heard("node-2", "node-3").logsRead(0, 20, "node-1").changed("gone", record.NodeRemoved, "node-1", "10.77.0.11", 20, 22)
		}},
		{name: "an audit log that is not read to the end, and another has a late action", want: Fail, story: func() *story {
			return succession().action("node-2", 42).heard("node-1", "node-2").logsRead(0, 55, "node-3")
		}},
		{name: "an audit log that is not read for a while", want: Pass, story: func() *story {
			return succession().heard("node-1", "node-3").logsRead(0, 20, "node-2").logsRead(50, 60, "node-2")
		}},
		{name: "an audit log that is read until just before the end", want: Pass, story: func() *story {
			return succession().heard("node-1", "node-3").logsRead(0, 53.5, "node-2")
		}},
		{name: "the audit log of an API server that is gone", want: Pass, story: func() *story {
			return succession().heard("node-1", "node-3").logsRead(0, 20, "node-2").change(func(r *record.Run) {
				r.Probes = slices.DeleteFunc(r.Probes, func(p record.Timed[record.Probe]) bool { return p.V.Entrance == "node-2" && p.At > sec(22) })
			})
		}},
		{name: "nothing seen", want: NotApplicable, story: func() *story { return newStory() }},
		{name: "no audit log at all, though an instance was active", want: Inconclusive, says: "does not show what kube-scheduler on node-1 did", story: func() *story {
			return newStory().at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16)
		}},
		{name: "no audit log, and no access to any", want: NotApplicable, says: "cannot be tested here", story: func() *story {
			return newStory().at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16).
				change(func(r *record.Run) { r.Meta.NoAccess = []record.Access{record.AuditLogs} })
		}},
		{name: "renewals alone", want: NotApplicable, story: func() *story { return newStory().renews("node-2", 1, 50) }},
		{name: "the old one after a thaw", want: Fail, story: func() *story { return succession().action("node-2", 42) },
			says: "the one on node-3 had taken over by 26.010s, and the one on node-2, which had renewed its lease last at 9.010s, acted at 42.000s"},
		{name: "right after a thaw", want: Pass, says: "on node-2 acted 1 time at the same time as the one on node-3, the last time 24.99s after that one had taken over", story: func() *story {
			return succession().fault("freeze", "freeze", "node-2", "kube-scheduler", 11, 40).action("node-2", 51)
		}},
		{name: "long after a thaw", want: Fail, says: "acted at 54.000s", story: func() *story {
			return succession().fault("freeze", "freeze", "node-2", "kube-scheduler", 11, 40).action("node-2", 54)
		}},
		{name: "right after a thaw of its API server, which may have kept the request", want: Pass, story: func() *story {
			return succession().fault("freeze", "freeze", "node-2", "kube-apiserver", 11, 40).action("node-2", 41)
		}},
		{name: "long after a thaw of its API server", want: Fail, says: "acted at 43.000s", story: func() *story {
			return succession().fault("freeze", "freeze", "node-2", "kube-apiserver", 11, 40).action("node-2", 43)
		}},
		{name: "right after a thaw of its zone", want: Pass, says: "on node-2 acted 1 time at the same time as the one on node-3", story: func() *story { return zone(51) }},
		{name: "long after a thaw of its zone", want: Fail, says: "acted at 54.000s", story: func() *story { return zone(54) }},
		{name: "another one was thawed", want: Fail, says: "acted at 51.000s", story: func() *story {
			return succession().fault("freeze", "freeze", "node-2", "kube-controller-manager", 11, 40).action("node-2", 51)
		}},
		{name: "the old one never stopped", want: Fail, says: "acted at 30.000s: create of pods/binding default/p", story: func() *story { return succession().action("node-2", 30) }},
		{name: "the old one, another component", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(func(a *record.Timed[record.Action]) { a.V.Component = "kube-controller-manager" })
		}},
		{name: "one that never held the lease", want: Fail, says: "the one on node-1, which was not seen to renew its lease before, acted at 40.000s", story: func() *story { return succession().action("node-1", 40) }},
		{name: "right after the takeover", want: Pass, story: func() *story { return succession().action("node-2", 27) }},
		{name: "received before, completed after", want: Pass, story: func() *story {
			return succession().action("node-2", 12).lastAction(func(a *record.Timed[record.Action]) { a.V.Completed, a.At = sec(45), sec(45.1) })
		}},
		{name: "dropped, and within its deadline", want: Pass, says: "on node-2 acted 12 times at the same time as the one on node-3, the last time 11.49s after that one had taken over (limit 12s)", story: func() *story {
			return besides().fault("steal", "lease-steal", "node-2", "kube-scheduler", 10, 30)
		}},
		{name: "dropped, and once within its deadline", want: Pass, story: func() *story {
			// Another took the lease at 11 s; node-2 may continue until 21 s.
			return newStory().renews("node-2", 1, 10).renews("node-3", 11, 50).probes("node-2", true, 1, 58).action("node-2", 20).
				fault("steal", "lease-steal", "node-2", "kube-scheduler", 10, 30)
		}},
		{name: "dropped, and beyond its deadline", want: Fail, says: "acted at 26.000s", story: func() *story {
			return newStory().renews("node-2", 1, 10).renews("node-3", 11, 50).probes("node-2", true, 1, 58).action("node-2", 26)
		}},
		{name: "took the lease back", want: Pass, story: func() *story { return succession().renews("node-2", 59, 60).action("node-2", 59.5) }},
		{name: "without effect", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(func(a *record.Timed[record.Action]) { a.V.Code = 409 })
		}},
		{name: "an event of the past", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(func(a *record.Timed[record.Action]) { a.V.Resource, a.V.Subresource = "events.k8s.io/events", "" })
		}},
		{name: "the old one, from an address that is not a node's", want: Inconclusive, says: "does not show which instance of kube-scheduler acted at 42.000s, since the source address of the request is not a node's: create of pods/binding default/p by an unknown instance", story: func() *story {
			return succession().action("node-2", 42).lastAction(unowned)
		}},
		{name: "two act, one through the balancer, without any election", want: Inconclusive, says: "which instance of kube-scheduler acted at 15.000s", story: func() *story {
			s := newStory().renews("node-1", 1, 50)
			for t := range steps(10, 50, 10) {
				s.action("node-1", t).action("node-2", t+5).lastAction(unowned)
			}
			return s
		}},
		{name: "nothing but acts from an address that is not a node's", want: Inconclusive, says: "which instance of kube-scheduler acted at 42.000s", story: func() *story {
			return newStory().action("node-2", 42).lastAction(unowned)
		}},
		{name: "one beside another, and one from an address that is not a node's", want: Fail, says: "acted at 42.000s", story: func() *story {
			return succession().action("node-2", 42).action("node-1", 44).lastAction(unowned)
		}},
		{name: "refused, from an address that is not a node's", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(unowned).lastAction(func(a *record.Timed[record.Action]) { a.V.Code = 409 })
		}},
		{name: "an event, from an address that is not a node's", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(unowned).lastAction(func(a *record.Timed[record.Action]) { a.V.Resource, a.V.Subresource = "events", "" })
		}},
		{name: "a renewal, from an address that is not a node's", want: Pass, story: func() *story {
			return succession().renews("node-2", 42, 43).lastAction(unowned)
		}},
		{name: "an add-on manager, from an address that is not a node's", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(unowned).lastAction(func(a *record.Timed[record.Action]) { a.V.Component = facts.AddonManager })
		}},
		{name: "waited before an API server that stood still", want: Pass, story: func() *story {
			s := newStory().renews("node-2", 1, 10).renews("node-3", 26, 58).probes("node-2", true, 1, 11).probes("node-2", false, 11, 41.8)
			return s.probes("node-2", true, 42.1, 58).action("node-2", 42)
		}},
		{name: "its clock is behind, and another has the lease", want: Inconclusive, says: "the clock of the API server on node-2 does not agree with the harness's, by which kube-scheduler on node-2 acted at 42.000s", story: func() *story {
			return succession().action("node-2", 42).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(102) })
		}},
		{name: "read late, by a clock that agrees", want: Pass, took: "6 actions", story: func() *story { return succession().action("node-2", 9.5).readLate(41) }},
		{name: "read late, within its deadline", want: Pass, story: func() *story { return succession().action("node-2", 12).readLate(41) }},
		{name: "read late, and beyond its deadline", want: Fail, says: "the one on node-2, which had renewed its lease last at 9.010s, acted at 30.000s", story: func() *story {
			return succession().action("node-2", 30).readLate(41)
		}},
		{name: "read late, by a clock that nothing else shows", want: Inconclusive, says: "the clock of the API server on node-2 does not agree with the harness's", story: func() *story {
			return succession().action("node-2", 30).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(41) })
		}},
		{name: "read late, by a clock that is ahead, and agrees by chance", want: Inconclusive, says: "the clock of the API server on node-2 does not agree with the harness's", story: func() *story {
			return succession().action("node-2", 30).readLate(41).
				action("node-1", 45).lastAction(func(a *record.Timed[record.Action]) {
				a.At, a.V.Component, a.V.Via = sec(41.2), "kube-controller-manager", "node-2"
			})
		}},
		{name: "renewals that were read late allow what follows", want: Pass, says: "on node-2 acted 1 time at the same time as the one on node-3", story: unread},
		{name: "renewals that were read late, and beyond its deadline", want: Fail, says: "which had renewed its lease last at 37.010s, acted at 53.000s", story: func() *story {
			return unread().action("node-2", 53)
		}},
		{name: "a holder whose clock is off", want: Inconclusive, says: "does not show what kube-scheduler on node-1 did", story: func() *story {
			s := succession().at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16)
			return s.renews("node-1", 11, 16).change(func(r *record.Run) {
				for i := range r.Actions {
					if a := &r.Actions[i]; a.V.Node == "node-1" {
						a.V.Received, a.V.Completed = a.V.Received+sec(3), a.V.Completed+sec(3)
					}
				}
			})
		}},
		{name: "its clock is ahead", want: Pass, story: func() *story {
			return succession().action("node-2", 42).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(8) })
		}},
		{name: "all clocks are wrong", want: Inconclusive, says: "none of 14 actions", story: func() *story {
			return newStory().renews("node-2", 1, 28).change(func(r *record.Run) {
				for i := range r.Actions {
					r.Actions[i].At += sec(60)
				}
			})
		}},
		{name: "the old one, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return succession().action("node-2", 42).change(func(r *record.Run) { r.Harness[40].V.Late = time.Second })
		}},
		{name: "a holder's log is missing", want: Inconclusive, says: "does not show what kube-scheduler on node-1 did: it was seen to renew its lease", story: func() *story {
			return succession().at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16)
		}},
		{name: "the log of a holder that joined is missing", want: Inconclusive, says: "does not show what kube-scheduler on node-4 did: it was seen to renew its lease", story: func() *story {
			return succession().changed("fourth", record.NodeAdded, "node-4", "10.77.0.14", 5, 9).at(11).lease("kube-scheduler", "node-4_x", 7, 11).at(16).lease("kube-scheduler", "node-4_x", 9, 16)
		}},
		{name: "the log of another component is missing", want: Inconclusive, says: "does not show what kube-controller-manager on node-1 did", story: func() *story {
			return succession().at(11).lease("kube-controller-manager", "node-1_x", 7, 11).at(16).lease("kube-controller-manager", "node-1_x", 9, 16)
		}},
		{name: "a holder that does not renew", want: Pass, story: func() *story {
			return succession().at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 7, 11)
		}},
		{name: "a holder that is no instance", want: Pass, story: func() *story {
			return succession().at(11).lease("kube-scheduler", "stranger", 7, 11).at(16).lease("kube-scheduler", "stranger", 9, 16)
		}},
		{name: "a holder's log is missing, another one acts", want: Fail, says: "acted at 42.000s", story: func() *story {
			return succession().action("node-2", 42).at(11).lease("kube-scheduler", "node-1_x", 7, 11).at(16).lease("kube-scheduler", "node-1_x", 9, 16)
		}},
		{name: "by turns, each taking the lease from the other", want: Fail, says: "the ones on node-1 and node-2 took its lease from each other alternately", story: func() *story { return stealing(2) }},
		{name: "by turns, each when the lease had run out", want: Pass, story: func() *story { return stealing(15) }},
		{name: "by turns, since faults took the lease from both", want: Pass, says: "on node-1 acted 1 time at the same time as the one on node-2", story: func() *story {
			// Until its deadline, 10 s after its last renewal, node-1 tries to get the lease back.
			s := newStory().renews("node-1", 1, 6).renews("node-2", 8, 11).renews("node-1", 13, 50).action("node-1", 9).action("node-1", 20)
			for i, n := range []string{"node-1", "node-2"} {
				s.probes(n, true, 1, 58).at(1).process(n, "kube-scheduler", 30+i)
			}
			return s.fault("first", "lease-steal", "node-1", "kube-scheduler", 6, 7).fault("second", "lease-steal", "node-2", "kube-scheduler", 11, 12)
		}},
		{name: "by turns, and a fault took the lease from one once", want: Fail, says: "took its lease from each other alternately (13.000s, 19.000s and 25.000s)", story: func() *story {
			return stealing(2).fault("steal", "lease-steal", "node-1", "kube-scheduler", 7, 8)
		}},
		{name: "by turns, each restarted in between", want: Pass, story: func() *story {
			s := stealing(2)
			for t := range steps(6, 52, 2) {
				s.at(t).process("node-1", "kube-scheduler", int(100+t)).process("node-2", "kube-scheduler", int(200+t))
			}
			return s
		}},
		{name: "no election, by turns", story: unelected, want: Fail, says: "no instance was elected, and the ones on node-1 and node-2 acted alternately (10.000s, 20.000s and 30.000s)"},
		{name: "no election, one after another", want: Pass, story: func() *story { return newStory().action("node-1", 10).action("node-1", 15).action("node-2", 20) }},
		{name: "no election seen, but a holder", want: Pass, story: func() *story { return unelected().at(5).lease("kube-scheduler", "node-1_x", 7, 5) }},
		{name: "no election, started again in between", want: Pass, story: func() *story { return unelected().at(25).process("node-1", "kube-scheduler", 99) }},
		{name: "no election, one waited", want: Pass, story: func() *story {
			return unelected().change(func(r *record.Run) { r.Probes = nil })
		}},
	})
}
