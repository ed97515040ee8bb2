package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

var threeNodes = []string{"node-1", "node-2", "node-3"}

// crossed puts a key through each node and reads it through each other one.
func crossed(s *story, api, purpose string, put record.OpType) *story {
	t := 30.0
	for _, a := range threeNodes {
		value := "from-" + a
		s.write(put, a, "x-"+a, value, 0, t, t+0.1).purpose(purpose)
		s.last().API = api
		for _, b := range threeNodes {
			if a != b {
				s.read(b, "x-"+a, value, 0, t+0.2, t+0.3).purpose(purpose)
				s.last().API = api
			}
		}
		t++
	}
	return s
}

func member() *story { return crossed(leaders(newStory()), "etcd", "cross-member", record.OpPut) }

func eachEtcd(f func(at record.Nanos, e *record.EtcdStatus)) func(*record.Run) {
	return func(r *record.Run) {
		for i := range r.Etcd {
			f(r.Etcd[i].At, &r.Etcd[i].V)
		}
	}
}

func complete() *story {
	s := newStory()
	for _, n := range threeNodes {
		for i, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			s.at(1).process(n, c, 0)
			s.at(2).process(n, c, 10+i)
		}
	}
	for _, e := range s.run.Meta.Entrances {
		s.read(e, "/readyz", "ok", 0, 3, 3.1).purpose("ready")
	}
	for _, n := range threeNodes {
		s.at(1).backend(n, true, 0)
	}
	return s
}

// balanced is complete, but the balancer knows only these backends.
func balanced(nodes ...string) *story {
	s := complete().change(func(r *record.Run) { r.Backends = nil })
	for _, n := range nodes {
		s.at(1).backend(n, true, 0)
	}
	return s
}

// spread is complete, with a balancer that does not tell its backends, and that many watches
// through it that reached each of some servers.
func spread(each int, servers ...string) *story {
	s := complete().change(func(r *record.Run) { r.Backends = nil })
	add(s.at(1), &s.run.Backends, record.Backend{Missing: "NGINX does not tell"})
	for i, address := range servers {
		for k := range each {
			s.watching("c", fmt.Sprint("w", i, k), record.WatchOpened, 4, "balancer", address, "")
		}
	}
	return s
}

func TestControlPlaneComplete(t *testing.T) {
	renamed := func() *story {
		return balanced(threeNodes...).change(func(r *record.Run) {
			for i := range r.Backends {
				b := &r.Backends[i].V
				b.Name, b.Address = fmt.Sprint("server-", i), r.Meta.Nodes[i].Address+":6443"
			}
		})
	}
	rule(t, record.Check{Requirement: "HA-TOP-002", Judge: "control-plane-complete"}, []ruling{
		{name: "as it should be", story: complete, want: Pass, took: "9 of 9 processes, 4 of 4 entrances"},
		{name: "no scheduler", want: Fail, says: "kube-scheduler does not run on node-2", took: "8 of 9 processes", story: func() *story {
			return complete().at(4).process("node-2", "kube-scheduler", 0)
		}},
		{name: "frozen", want: Fail, says: "kube-scheduler does not run on node-2 (state T)", story: func() *story {
			s := complete().at(4).process("node-2", "kube-scheduler", 12)
			s.run.Processes[len(s.run.Processes)-1].V.State = "T"
			return s
		}},
		{name: "not ready", want: Fail, says: "/readyz does not answer ok through node-3", story: func() *story { return complete().outcome(record.Refused) }},
		{name: "ready in the end", want: Pass, story: func() *story {
			return complete().outcome(record.Refused).read("node-3", "/readyz", "ok", 0, 5, 6).purpose("ready")
		}},
		{name: "balancer not asked", want: Inconclusive, says: "a request for /readyz through balancer", story: func() *story {
			return complete().change(func(r *record.Run) { r.Ops = r.Ops[1:] })
		}},
		{name: "agent silent", want: Inconclusive, says: "the state of kube-scheduler on node-2 (no route)", story: func() *story {
			s := complete().at(4).process("node-2", "kube-scheduler", 0)
			s.run.Processes[len(s.run.Processes)-1].V.Error = "no route"
			return s
		}},
		{name: "the balancer knows one server", want: Fail, took: "9 of 9 processes", says: "the load balancer does not forward to the API servers on node-2 and node-3", story: func() *story {
			return balanced("node-1")
		}},
		{name: "one server is down for the balancer", want: Fail, says: "the load balancer does not forward to the API server on node-2", story: func() *story {
			return balanced(threeNodes...).at(5).backend("node-2", false, 5)
		}},
		{name: "one server came up late", want: Pass, story: func() *story {
			return balanced("node-1", "node-3").at(2).backend("node-2", false, 2).at(5).backend("node-2", true, 5)
		}},
		{name: "an old server besides", want: Pass, story: func() *story {
			return balanced(threeNodes...).backend("node-9", false, 1)
		}},
		{name: "backends under names of their own", want: Pass, says: "the load balancer forwards to all of them", story: renamed},
		{name: "backends under names of their own over IPv6", want: Pass, says: "the load balancer forwards to all of them", story: overIPv6(renamed)},
		{name: "two backends under names of their own over IPv6", want: Fail, says: "the load balancer does not forward to the API server on node-3", story: overIPv6(func() *story {
			return renamed().change(func(r *record.Run) { r.Backends = r.Backends[:2] })
		})},
		{name: "an address that moves is on one node", want: Pass, story: func() *story {
			return balanced("node-1").backend("node-2", false, 1).backend("node-3", false, 1).change(func(r *record.Run) {
				for i := range r.Backends {
					r.Backends[i].V.Standby = !r.Backends[i].V.Up
				}
			})
		}},
		{name: "down only later, by the experiment", want: Pass, story: func() *story {
			return balanced(threeNodes...).fault("kill", "kill", "node-2", "kube-apiserver", 10, 20).at(12).backend("node-2", false, 12)
		}},
		{name: "down for the balancer, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return balanced("node-1").change(func(r *record.Run) { r.Harness[3].V.Late = time.Second })
		}},
		{name: "the balancer does not tell, and watches reached all", want: Pass, story: func() *story {
			return spread(3, "10.77.0.11", "10.77.0.12", "10.77.0.13")
		}},
		{name: "the balancer does not tell, and watches reached two", want: Inconclusive, says: "evidence of which API servers the load balancer sends clients to: it does not report them, and none of 6 watches through it reached node-3", story: func() *story {
			return spread(3, "10.77.0.11", "10.77.0.12")
		}},
		{name: "nothing is known of the balancer's servers", want: Inconclusive, says: "evidence of which API servers the load balancer sends clients to", story: func() *story {
			return complete().change(func(r *record.Run) { r.Backends = nil })
		}},
		{name: "without a balancer", want: Pass, took: "9 of 9 processes, 3 of 3 entrances", story: func() *story {
			return complete().change(func(r *record.Run) { r.Backends, r.Meta.Entrances = nil, r.Meta.Entrances[1:]; r.Ops = r.Ops[1:] })
		}},
		{name: "killed later by the experiment", want: Pass, story: func() *story {
			s := complete().fault("kill", "kill", "node-2", "kube-scheduler", 10, 20)
			return s.at(11).process("node-2", "kube-scheduler", 0)
		}},
	})
}

func crossing() *story { return crossed(newStory(), "kubernetes", "cross-read", record.OpCreate) }

func TestCrossRead(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-QR-001", Judge: "cross-read"}, []ruling{
		{name: "as it should be", story: crossing, want: Pass, took: "6 of 6 pairs"},
		{name: "absent", want: Fail, says: `x-node-3 was written as "from-node-3" through node-3, and the next read through node-2 returned nothing`, story: func() *story {
			s := crossing()
			s.last().Found, s.last().Value = false, ""
			return s
		}},
		{name: "stale after an update", want: Fail, says: `written as "new" through node-1, and the next read through node-2 returned "from-node-1"`, story: func() *story {
			return crossing().write(record.OpUpdate, "node-1", "x-node-1", "new", 0, 40, 41).purpose("cross-read").
				read("node-2", "x-node-1", "from-node-1", 0, 41.1, 41.2).purpose("cross-read")
		}},
		{name: "read before the write returned", want: Pass, story: func() *story {
			return crossing().write(record.OpUpdate, "node-1", "x-node-1", "new", 0, 40, 41).purpose("cross-read").
				read("node-2", "x-node-1", "from-node-1", 0, 40.5, 41.2).purpose("cross-read")
		}},
		{name: "value of a write under way", want: Pass, story: func() *story {
			return crossing().write(record.OpUpdate, "node-3", "x-node-1", "new", 0, 40, 43).purpose("cross-read").
				read("node-2", "x-node-1", "new", 0, 41.1, 41.2).purpose("cross-read")
		}},
		{name: "pair missing", want: Inconclusive, says: "1 of 6 ordered pairs of API servers have no write that was read: node-3 to node-2", story: func() *story {
			return crossing().change(func(r *record.Run) { r.Ops = r.Ops[:len(r.Ops)-1] })
		}},
		{name: "read failed", want: Inconclusive, says: "node-3 to node-2 (get of x-node-3 through node-2 by c-node-2 (unknown: timed out)", story: func() *story {
			return crossing().outcome(record.Unknown)
		}},
		{name: "nothing", story: func() *story { return newStory() }, want: Inconclusive, says: "6 of 6 ordered pairs"},
		{name: "one API server", want: NotApplicable, story: func() *story {
			return newStory().change(func(r *record.Run) { r.Meta.Entrances = []string{"balancer", "node-1"} })
		}},
	})
}

func listed() *story {
	s := newStory()
	for i := range 6 {
		for _, n := range threeNodes {
			s.at(float64(i)).endpoints(n, "10.77.0.13", "10.77.0.12", "10.77.0.11")
		}
	}
	return s
}

// flapping lists all API servers and one of them by turns, every second, and all of them
// before and after that.
func flapping(from, to int) *story {
	s := newStory()
	for i := range 40 {
		for _, n := range threeNodes {
			if i >= from && i < to && i%2 == 0 {
				s.at(float64(i)).endpoints(n, "10.77.0.11")
			} else {
				s.at(float64(i)).endpoints(n, allThree...)
			}
		}
	}
	return s
}

func TestEndpointsMatch(t *testing.T) {
	// alone lists one API server from the baseline to the end.
	alone := func(end int) func() *story {
		return func() *story {
			s := newStory()
			for i := range end + 1 {
				s.at(float64(i)).endpoints("node-1", "10.77.0.11")
			}
			return s.change(func(r *record.Run) { r.EndAt = sec(float64(end)) })
		}
	}
	bounded := record.Check{Requirement: "HA-EP-001", Level: "MUST", Judge: "endpoints-match", Bound: "I + M"}
	rule(t, record.Check{Requirement: "HA-EP-001", Judge: "endpoints-match"}, []ruling{
		{name: "as it should be", story: listed, want: Pass, took: "36 of 36 states"},
		{name: "none at all", want: Fail, says: "must hold exactly the live API servers [10.77.0.11 10.77.0.12 10.77.0.13]: for 5s up to the end, endpoints through node-1 holds [] and endpointslice through node-1 holds []; 0 of 12 states match", story: func() *story {
			s := newStory()
			for i := range 6 {
				s.at(float64(i)).endpoints("node-1")
			}
			return s
		}},
		{name: "one alone, as long as API servers may take to list themselves", want: Inconclusive, says: "too briefly to rule out that they would still converge", story: alone(22)},
		{name: "one alone for longer", want: Fail, says: "for 23s up to the end", story: alone(23)},
		// The first attempt of two of them failed on the Service, and one's second on a conflict.
		{name: "the third attempt completes it", want: Pass, took: "12 of 48 states", story: func() *story {
			s := alone(17)()
			for i := range 6 {
				s.at(float64(18+i)).endpoints("node-1", allThree...)
			}
			return s.change(func(r *record.Run) { r.EndAt = sec(24) })
		}},
		{name: "one too many", want: Fail, says: "holds [10.77.0.11 10.77.0.12 10.77.0.13 10.77.0.99]", story: func() *story {
			return listed().at(7).endpoints("node-1", "10.77.0.11", "10.77.0.12", "10.77.0.13", "10.77.0.99").
				at(8).endpoints("node-1", "10.77.0.11", "10.77.0.12", "10.77.0.13", "10.77.0.99")
		}},
		{name: "twice the same", want: Fail, says: "holds [10.77.0.11 10.77.0.11 10.77.0.12]", story: func() *story {
			return listed().at(7).endpoints("node-1", "10.77.0.11", "10.77.0.11", "10.77.0.12").
				at(8).endpoints("node-1", "10.77.0.11", "10.77.0.11", "10.77.0.12")
		}},
		{name: "one reading at the end", want: Inconclusive, says: "too briefly to rule out that they would still converge", story: func() *story {
			return listed().at(7).endpoints("node-1", "10.77.0.11")
		}},
		{name: "shorter than the bound", want: Inconclusive, says: "too briefly to rule out that they would still converge within 12s (I + M", story: func() *story {
			s := listed().at(7).endpoints("node-1", "10.77.0.11").at(17).endpoints("node-1", "10.77.0.11")
			s.run.Meta.Checks = []record.Check{bounded}
			return s
		}},
		{name: "longer than the bound, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			s := listed().at(30).endpoints("node-1", "10.77.0.11").at(50).endpoints("node-1", "10.77.0.11")
			s.run.Meta.Checks = []record.Check{bounded}
			return s.change(func(r *record.Run) { r.Harness[20].V.Late = 5 * time.Second })
		}},
		{name: "longer than the bound", want: Fail, says: "within 12s (I + M, I = 10s, M = 2s): for 13s up to the end", story: func() *story {
			s := listed().at(7).endpoints("node-1", "10.77.0.11").at(20).endpoints("node-1", "10.77.0.11")
			s.run.Meta.Checks = []record.Check{bounded}
			return s
		}},
		{name: "complete later", want: Pass, took: "38 of 40 states", story: func() *story {
			s := newStory().at(0).endpoints("node-2", "10.77.0.11").endpoints("node-2", "10.77.0.13", "10.77.0.12", "10.77.0.11")
			s.run.Endpoints = append(s.run.Endpoints, listed().run.Endpoints...)
			return s
		}},
		{name: "flaps, and is right in the end", want: Fail, says: "endpoints through node-1 held [10.77.0.11] at 14.000s, 14s after the baseline, longer than 12s (I + M", story: func() *story {
			return flapping(0, 40)
		}},
		{name: "incomplete again, once all had listed themselves", want: Fail, says: "held [10.77.0.11 10.77.0.13] at 14.000s, 14s after the baseline, longer than 12s (I + M", story: func() *story {
			return listed().at(14).endpoints("node-3", without2...).at(15).endpoints("node-3", allThree...)
		}},
		{name: "another address, before all had listed themselves", want: Fail, says: "14s after the baseline, longer than 12s (I + M", story: func() *story {
			return newStory().at(14).endpoints("node-1", "10.77.0.11", "10.77.0.99").at(15).endpoints("node-1", allThree...)
		}},
		{name: "flaps while the API servers start", want: Pass, story: func() *story { return flapping(0, 12) }},
		{name: "wrong once, long after the start", want: Fail, says: "held [10.77.0.11 10.77.0.13] at 30.000s", story: func() *story {
			return flapping(0, 2).at(30).endpoints("node-3", without2...).at(31).endpoints("node-3", allThree...)
		}},
		{name: "wrong beside a fault of others", want: Fail, says: "held [10.77.0.11 10.77.0.13] at 30.000s", story: func() *story {
			return flapping(0, 2).fault("freeze", "freeze", "node-2", "kube-scheduler", 20, 50).at(30).endpoints("node-3", without2...).at(31).endpoints("node-3", allThree...)
		}},
		{name: "wrong by a fault", want: Pass, story: func() *story {
			return flapping(0, 2).fault("kill", "kill", "node-2", "kube-apiserver", 20, 50).at(30).endpoints("node-3", without2...).at(31).endpoints("node-3", allThree...)
		}},
		{name: "wrong once, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return flapping(0, 2).at(30).endpoints("node-3", without2...).at(31).endpoints("node-3", allThree...).
				change(func(r *record.Run) { r.Harness[20].V.Late = 5 * time.Second })
		}},
		{name: "slices not read", want: Inconclusive, says: "no reading of the endpointslice", story: func() *story {
			return listed().change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Source = "endpoints"
				}
			})
		}},
		{name: "nothing", story: func() *story { return newStory() }, want: Inconclusive, says: "no reading of the endpoints"},
	})
}

func TestHarness(t *testing.T) {
	decided := func() *story {
		return removed().change(func(r *record.Run) {
			for i := range r.Etcd {
				r.Etcd[i].V.Hash, r.Etcd[i].V.HashRevision, r.Etcd[i].V.HashCompacted = 7, 900, 5
			}
		})
	}
	unread := func() *story { return decided().change(func(r *record.Run) { r.Endpoints = nil }) }
	for _, tt := range []struct {
		name  string
		story *story
		want  Verdict
		took  string
	}{
		{"in time", removed(), Pass, "2ms"},
		{"late without harm", decided().at(60).harness(time.Second), Pass, "1s"},
		{"late with harm", tooLate().at(45).change(func(r *record.Run) { r.Harness[30].V.Late = 5 * time.Second }), Inconclusive, "5s"},
		{"late, and a check is inconclusive", unread().at(60).harness(time.Second), Inconclusive, "1s"},
		{"in time, and a check is inconclusive", unread(), Pass, "2ms"},
		{"silent", removed().change(func(r *record.Run) { r.Harness = nil }), Inconclusive, ""},
	} {
		tt.story.run.Meta.Checks = []record.Check{removal}
		all := Evaluate(tt.story.run)
		r := all[len(all)-1]
		if r.Requirement != "RUN/harness" || r.Verdict != tt.want || r.Measured != tt.took {
			t.Errorf("%s: %s %s, %s", tt.name, r.Verdict, r.Measured, r.Sentence)
		}
	}
}
