package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// asks has an instance that stands by on a node read its lease every 2 s through the API
// server of another one, and the audit log of each API server be read all the time.
func (s *story) asks(component, node, via string, from, to float64) *story {
	for t := range steps(from, to, 2) {
		s.at(t + 0.2)
		add(s, &s.run.Asked, record.Action{Component: component, Node: node, Via: via, Verb: "get", Election: true, Code: 200, Received: sec(t), Completed: sec(t + 0.01)})
	}
	return s
}

func (s *story) logsRead(from, to float64, vias ...string) *story {
	for t := range steps(from, to, 1) {
		s.at(t)
		for _, via := range vias {
			add(s, &s.run.Asked, record.Action{Via: via, Received: sec(t), Completed: sec(t)})
		}
	}
	return s
}

// lastAsked changes all that an instance had answered at or after some time.
func lastAsked(component, node string, from float64, change func(*record.Action)) func(*record.Run) {
	return func(r *record.Run) {
		for i := range r.Asked {
			if a := &r.Asked[i].V; a.Component == component && a.Node == node && a.Received >= sec(from) {
				change(a)
			}
		}
	}
}

func withoutAudit(r *record.Run) { r.Meta.NoAccess = []record.Access{record.AuditLogs} }

func TestNoHiddenDependency(t *testing.T) {
	const kcm, scheduler = "kube-controller-manager", "kube-scheduler"
	refused := func(a *record.Action) { a.Code = 504 }
	// node-1 is gone from 10 s to 30 s. The scheduler on node-2 is active, the rest are standby.
	alone := func() *story {
		return leaders(newStory()).fault("gone", "isolate", "node-1", "", 10, 30).logsRead(0, 60, "node-2", "node-3")
	}
	served := func(s *story) *story { return s.traffic("node-2", 1, 40).traffic("node-3", 1, 40) }
	standing := func(s *story) *story {
		return s.renews("node-2", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40).asks(kcm, "node-2", "node-2", 0, 40).asks(kcm, "node-3", "node-3", 0, 40)
	}
	asItShouldBe := func() *story { return standing(served(alone())) }
	// unanswered has the API server on node-3 answer no read between two times.
	unanswered := func(from, to float64) func() *story {
		return func() *story {
			return asItShouldBe().change(func(r *record.Run) {
				for i := range r.Ops {
					if o := &r.Ops[i].V; o.Entrance == "node-3" && o.Type == record.OpGet && o.Call > sec(from) && o.Call < sec(to) {
						o.Outcome = record.Unknown
					}
				}
			})
		}
	}
	// seldom has node-1 be gone until some time, and the scheduler on node-3, with a retry period
	// of 10 s, read its lease at the given times.
	seldom := func(to float64, asked ...float64) *story {
		s := leaders(newStory()).fault("gone", "isolate", "node-1", "", 10, to).logsRead(0, 60, "node-2", "node-3").traffic("node-2", 1, 58).traffic("node-3", 1, 58)
		s.renews("node-2", 0, 58).asks(kcm, "node-2", "node-2", 0, 58).asks(kcm, "node-3", "node-3", 0, 58)
		for _, t := range asked {
			s.asks(scheduler, "node-3", "node-3", t, t+1)
		}
		return s.change(func(r *record.Run) {
			r.Meta.Elections = map[string]map[string]time.Duration{scheduler: {"L": 50 * time.Second, "R": 40 * time.Second, "P": 10 * time.Second}}
		})
	}
	rule(t, record.Check{Requirement: "HA-TOP-006", Judge: "no-hidden-dependency", Fault: "gone", Bound: "12s"}, []ruling{
		{name: "as it should be", want: Pass, took: "2s", story: asItShouldBe,
			says: "With node-1 gone for 20s, the API servers on node-2 and node-3 acknowledged writes and answered quorum reads, and each of 4 instances"},
		{name: "another instance takes over", want: Pass, story: func() *story {
			s := served(alone()).renews("node-2", 0, 11).renews("node-3", 20, 40).asks(scheduler, "node-3", "node-3", 0, 20).asks(scheduler, "node-2", "node-2", 20, 40)
			return s.asks(kcm, "node-2", "node-2", 0, 40).asks(kcm, "node-3", "node-3", 0, 40)
		}},
		{name: "through a balancer", want: Pass, story: func() *story {
			return asItShouldBe().change(lastAsked(kcm, "node-2", 0, func(a *record.Action) { a.Via = "node-3" }))
		}},
		{name: "an API server on the other node's etcd", want: Fail, says: "the API server on node-3 acknowledged no write for 20s", story: func() *story {
			return standing(alone().traffic("node-2", 1, 40).traffic("node-3", 1, 10).failing("node-3", 10, 40))
		}},
		{name: "a controller manager on the other node's API server", want: Fail,
			says: "must be able to work within 12s (12s): kube-controller-manager on node-2 had no request about its lease answered from 10.000s for 20s", story: func() *story {
				return served(alone()).renews("node-2", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40).
					asks(kcm, "node-2", "node-1", 0, 10).asks(kcm, "node-3", "node-3", 0, 40)
			}},
		{name: "one that waits for a silent member", want: Inconclusive, took: "13.99s", says: "every API server uses the etcd member on node-1 as well", story: func() *story {
			return remote(asItShouldBe().change(lastAsked(kcm, "node-3", 17, refused)))
		}},
		{name: "one that no request of was answered, with a silent member", want: Fail, took: "1 could not", says: "kube-controller-manager on node-2 had no request about its lease answered from 10.000s for 20s", story: func() *story {
			return remote(served(alone()).renews("node-2", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40).
				asks(kcm, "node-2", "node-1", 0, 10).asks(kcm, "node-3", "node-3", 0, 40))
		}},
		{name: "both are found", want: Fail, says: "the API server on node-3 acknowledged no write for 20s; kube-controller-manager on node-2 had", story: func() *story {
			return alone().traffic("node-2", 1, 40).traffic("node-3", 1, 10).failing("node-3", 10, 40).renews("node-2", 0, 40).
				asks(kcm, "node-2", "node-1", 0, 10).asks(kcm, "node-3", "node-3", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40)
		}},
		{name: "answered with errors alone", want: Fail, says: "kube-scheduler on node-3", story: func() *story {
			return asItShouldBe().change(lastAsked(scheduler, "node-3", 10, refused))
		}},
		{name: "errors for as long as an election", want: Pass, took: "4.01s", story: func() *story {
			return asItShouldBe().change(func(r *record.Run) {
				lastAsked(scheduler, "node-3", 10, refused)(r)
				lastAsked(scheduler, "node-3", 14, func(a *record.Action) { a.Code = 200 })(r)
			})
		}},
		{name: "stopped later", want: Fail, says: "kube-controller-manager on node-3 had no request about its lease answered from 16.010s for 13.99s", story: func() *story {
			return asItShouldBe().change(lastAsked(kcm, "node-3", 17, refused))
		}},
		{name: "a long retry period", want: Pass, took: "22s", says: "the longest gap was 22s, within 24s (2.2P + M, M = 2s, P = 10s)", story: func() *story {
			return seldom(55, 5, 12, 34, 50)
		}},
		{name: "a long retry period, and stopped later", want: Fail, says: "kube-scheduler on node-3 had no request about its lease answered from 12.010s for 42.99s", story: func() *story {
			return seldom(55, 5, 12)
		}},
		{name: "a long retry period, and nothing from the start", want: Fail, says: "kube-scheduler on node-3 had no request about its lease answered from 10.000s for 45s", story: func() *story {
			return seldom(55, 5)
		}},
		{name: "a long retry period, and gone for no longer", want: Inconclusive, says: "by its retry period it may make none for 24s", story: func() *story { return seldom(32, 5) }},
		{name: "a long retry period of the other component", want: Fail, says: "kube-controller-manager on node-3 had no request about its lease answered from 16.010s for 38.99s", story: func() *story {
			return seldom(55, 5, 12, 34, 50).change(lastAsked(kcm, "node-3", 17, refused))
		}},
		{name: "writes, and answers no read", want: Fail, says: "the API server on node-3 answered no quorum read for 19.9s", story: unanswered(10, 60)},
		{name: "writes, and answers a few reads at first", want: Fail, says: "the API server on node-3 answered no quorum read for 17.9s", story: unanswered(12, 60)},
		{name: "answers no read for a while", want: Pass, took: "2s", story: unanswered(12, 22)},
		{name: "answers no read of some clients", want: Pass, took: "2s", story: func() *story { return unanswered(12, 60)().probes("node-3", true, 1, 40) }},
		{name: "the other instance was not seen before either", want: Inconclusive, says: "the audit logs show no request of kube-controller-manager on node-2", story: func() *story {
			return served(alone()).renews("node-2", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40).asks(kcm, "node-3", "node-3", 0, 40)
		}},
		{name: "an audit log could not be read", want: Inconclusive, says: "but the log of node-2 was not read", story: func() *story {
			return asItShouldBe().change(func(r *record.Run) {
				var left []record.Timed[record.Action]
				for _, a := range r.Asked {
					if a.V.Via != "node-2" || a.At < sec(10) {
						left = append(left, a)
					}
				}
				r.Asked = left
			})
		}},
		{name: "no audit logs", want: Inconclusive, says: "show no request", story: func() *story { return served(alone()) }},
		{name: "no access to audit logs", want: NotApplicable, says: "the API servers on node-2 and node-3 worked", story: func() *story { return served(alone()).change(withoutAudit) }},
		{name: "no access to audit logs, and an API server on the other node's etcd", want: Fail, says: "the API server on node-3 acknowledged no write for 20s", story: func() *story {
			return alone().traffic("node-2", 1, 40).traffic("node-3", 1, 10).failing("node-3", 10, 40).change(withoutAudit)
		}},
		{name: "supervisors elect", want: Pass, says: "each of 2 instances", story: func() *story {
			s := served(alone()).renews("node-2", 0, 40).asks(scheduler, "node-3", "node-3", 0, 40)
			return s.process("node-2", kcm, 0).change(func(r *record.Run) { r.Processes[0].V.Standby = true })
		}},
		{name: "gone for too short", want: Inconclusive, says: "gone for 8s, which is not longer", story: func() *story {
			return standing(served(leaders(newStory()).fault("gone", "isolate", "node-1", "", 10, 18).logsRead(0, 60, "node-2", "node-3")))
		}},
		{name: "a component alone", want: Inconclusive, says: "did not take down a whole node", story: func() *story {
			return standing(served(leaders(newStory()).fault("gone", "kill", "node-1", "etcd", 10, 30)))
		}},
		{name: "no writes tried", want: Inconclusive, says: "no write was tried through node-3", story: func() *story {
			return standing(alone().traffic("node-2", 1, 40))
		}},
		{name: "a starved machine", want: Inconclusive, says: "overloaded", story: func() *story {
			return asItShouldBe().change(func(r *record.Run) {
				lastAsked(kcm, "node-3", 17, refused)(r)
				for i := range r.Harness {
					r.Harness[i].V.Queue = 8
				}
			})
		}},
	})
}
