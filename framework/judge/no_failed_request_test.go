package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// drained stops the API server of node-2 from 10 s to 30 s, under probes through
// the balancer all the while.
func drained() *story {
	return newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 30).probes("balancer", true, 1, 58)
}

// notFound adds a patch of k through the balancer that was refused with 404.
func notFound(s *story) *story {
	s.write(record.OpPatch, "balancer", "k", "p", 0, 15, 15.1).refused(record.RefusedAbsent).last().Error = `status 404 (NotFound): configmaps "k" not found`
	return s
}

func TestNoFailedRequest(t *testing.T) {
	check := record.Check{Requirement: "HA-CL-004", Judge: "no-failed-request", Fault: "stop"}
	servers := check
	servers.Params = map[string]string{"entrance": "apiservers"}
	through := func(s *story) *story { s.run.Meta.Checks = []record.Check{servers}; return s }
	refused := func(problem string) *story {
		s := drained().write(record.OpUpdate, "balancer", "k", "v", 0, 15, 15.1).outcome(record.Refused)
		s.last().Error = problem
		return s
	}
	listed := func(outcome record.Outcome, status int, problem string) *story {
		s := drained().list("l", "", 15, 15.1)
		l := &s.run.Lists[0].V
		l.Entrance, l.Outcome, l.Status, l.Error, l.Pages[0].Revision = "balancer", outcome, status, problem, ""
		return s
	}
	const stopping = "status 503 (ServiceUnavailable): apiserver is shutting down"
	// A list is rejected, and its client lists once more, through the same or another entrance.
	relisted := func(entrance string, after int, then record.Outcome, status int, at float64) *story {
		s := listed(record.Unknown, 503, stopping)
		s.run.Lists[0].V.RetryAfter = after
		s.list("l", "7", at, at+.1)
		l := &s.run.Lists[1].V
		l.Entrance, l.Outcome, l.Status, l.RetryAfter = entrance, then, status, -1
		if then != record.OK {
			l.Error = "once more"
		}
		return s
	}
	// looked adds a request of an action, or of a client if it has no purpose, through the balancer.
	looked := func(purpose string, outcome record.Outcome, problem string) func() *story {
		return func() *story {
			s := drained().read("balancer", "k", "", 0, 15, 15.1).outcome(outcome).purpose(purpose)
			s.last().Error = problem
			return s
		}
	}
	watched := func(phase record.WatchPhase, status, after int, problem string) *story {
		s := drained().watching("c0", "w", phase, 15, "balancer", "10.77.0.11", problem)
		s.run.Watches[0].V.Status, s.run.Watches[0].V.RetryAfter = status, after
		return s
	}
	failed := func(start, end float64) record.Probe {
		return record.Probe{Entrance: "balancer", Kind: record.ProbeWrite, Start: sec(start), End: sec(end), Error: "EOF"}
	}
	turned := func(after int, again bool) record.Probe {
		p := failed(15, 15.01)
		p.Error, p.Status, p.RetryAfter = "status 503 (ServiceUnavailable): apiserver is shutting down", 503, after
		p.Again = &record.Repetition{Start: sec(16.01), End: sec(16.02), OK: again}
		if !again {
			p.Again.Status, p.Again.Error = p.Status, p.Error
		}
		return p
	}
	// A client is rejected, retries once too early, and then in time.
	repeats := func(after int, then record.Outcome) *story {
		s := refused("status 429 (TooManyRequests): apiserver is shutting down")
		s.last().RetryAfter = after
		s.read("balancer", "k", "v0", 0, 15.2, 15.3)
		return s.read("balancer", "k", "v0", 0, 16.2, 16.3).outcome(then)
	}
	rule(t, check, []ruling{
		{name: "as it should be", story: drained, want: Pass, took: "0 of 1200", says: "None of the 1200 requests through balancer failed during the stop of kube-apiserver on node-2"},
		{name: "killed after its grace period", want: Inconclusive, says: `the fault "stop" (stop of kube-apiserver on node-2) was not graceful`, story: func() *story {
			return drained().probe(failed(15, 15.01)).change(func(r *record.Run) { r.Faults[0].V.Killed = true })
		}},
		{name: "a probe failed", want: Fail, took: "1 of 1201", says: "1 of 1201 failed, the first one 5s after the call to inject it (balancer: write on a new connection, 15.000s to 15.010s: EOF)",
			story: func() *story { return drained().probe(failed(15, 15.01)) }},
		{name: "told to try again", want: Pass, took: "0 of 1201", says: "; 1 of them was answered with a request to retry, as the API server was shutting down, and succeeded at the first retry", story: func() *story {
			return drained().probe(turned(1, true))
		}},
		{name: "told to try again, in vain", want: Fail, took: "1 of 1201", says: "and once more 16.010s to 16.020s: status 503", story: func() *story {
			return drained().probe(turned(1, false))
		}},
		{name: "turned away without a word when to try again", want: Fail, took: "1 of 1201", story: func() *story {
			p := turned(-1, false)
			p.Again = nil
			return drained().probe(p)
		}},
		{name: "every request turned away", want: Fail, took: "1200 of 1200", story: func() *story {
			return drained().change(func(r *record.Run) {
				for i := range r.Probes {
					if p := &r.Probes[i].V; p.Start >= sec(10)-1000 && p.Start < sec(30) {
						*p = record.Probe{Entrance: p.Entrance, Reused: p.Reused, Kind: p.Kind, Start: p.Start, End: p.End, Status: 503, Error: turned(-1, false).Error, RetryAfter: -1}
					}
				}
			})
		}},
		{name: "told to try again, and the record ended", want: Inconclusive, says: "1 request was answered with a request to retry, as the API server was shutting down, and the record does not show the retry", story: func() *story {
			p := turned(1, false)
			p.Again = nil
			return drained().probe(p)
		}},
		{name: "turned away, in a record of before", want: Inconclusive, says: "does not show the retry", story: func() *story {
			p := turned(0, false)
			p.Again = nil
			return drained().probe(p)
		}},
		{name: "a client told to try again", want: Pass, says: "; 1 of them was answered", story: func() *story { return repeats(1, record.OK) }},
		{name: "a client told to try again, in vain", want: Fail, says: "2 of 1203 failed", story: func() *story { return repeats(1, record.Unknown) }},
		{name: "a client turned away without a word when to try again", want: Fail, story: func() *story { return repeats(-1, record.OK) }},
		{name: "a client turned away, in a record of before", want: Inconclusive, story: func() *story { return repeats(0, record.OK) }},
		{name: "a write crossed the end of its connection", want: Inconclusive, says: "raced with the closing", story: func() *story {
			p := failed(15, 15.01)
			p.Reused = true
			return drained().probe(p)
		}},
		{name: "a client's write did", want: Inconclusive, says: "raced with the closing", story: func() *story {
			return drained().write(record.OpUpdate, "balancer", "k", "v", 0, 15, 15.1).outcome(record.Unknown).change(func(r *record.Run) { r.Ops[0].V.Error = "unexpected EOF" })
		}},
		{name: "two did", want: Fail, says: "2 of 1202", story: func() *story {
			p := failed(15, 15.01)
			p.Reused = true
			return drained().probe(p).probe(p)
		}},
		{name: "a read on a persistent connection", want: Fail, story: func() *story {
			p := failed(15, 15.01)
			p.Reused, p.Kind = true, record.ProbeRead
			return drained().probe(p)
		}},
		{name: "a client with client-go's transport failed", want: Fail, says: "client-go-1, quorum read on a persistent connection", story: func() *story {
			return drained().client("client-go-1", "node-2", false, 15, 15.5)
		}},
		{name: "none with client-go's transport did", want: Pass, took: "0 of 1240", story: func() *story {
			return drained().client("client-go-1", "node-2", true, 1, 58)
		}},
		{name: "one kind pauses", want: Inconclusive, says: "no write on a new connection was tried for 5.05s (15.050s to 20.100s) through balancer", story: func() *story {
			return drained().change(unprobed(record.ProbeWrite, false, 15.1, 20.1))
		}},
		{name: "one kind pauses for less", want: Pass, story: func() *story {
			return drained().change(unprobed(record.ProbeWrite, false, 15.1, 20))
		}},
		{name: "one kind pauses, another fails", want: Fail, story: func() *story {
			p := failed(15, 15.01)
			p.Kind = record.ProbeRead
			return drained().change(unprobed(record.ProbeWrite, false, 15.1, 20.1)).probe(p)
		}},
		{name: "under way when it began", want: Fail, says: "the first one 0s after", story: func() *story { return drained().probe(failed(9.9, 10.1)) }},
		{name: "before it began", want: Inconclusive, says: "already failed before the fault", story: func() *story { return drained().probe(failed(9, 9.1)) }},
		{name: "after it was healed", want: Pass, story: func() *story { return drained().probe(failed(30.1, 30.2)) }},
		{name: "through another entrance", want: Pass, story: func() *story {
			p := failed(15, 15.1)
			p.Entrance = "node-2"
			return drained().probe(p)
		}},
		{name: "a client's request failed", want: Fail, says: "update of k through balancer", story: func() *story {
			return drained().write(record.OpUpdate, "balancer", "k", "v", 0, 15, 15.1).outcome(record.Unknown)
		}},
		{name: "a burst's request got no answer", want: Pass, took: "0 of 1200", story: func() *story {
			return drained().write(record.OpUpdate, "balancer", "k", "v", 0, 15, 15.1).outcome(record.Unknown).purpose(facts.PurposeBurst)
		}},
		{name: "unknown readers are refused", want: Pass, took: "0 of 1200", story: looked(facts.PurposeUnknownReader, record.Refused, "401: 12 times, 403: 3 times")},
		{name: "a forged token is refused", want: Pass, took: "0 of 1200", story: looked(facts.PurposeTrust, record.Refused, "status 401 (Unauthorized): Unauthorized")},
		{name: "a token is refused", want: Pass, took: "0 of 1200", story: looked("token", record.Refused, "status 401 (Unauthorized): Unauthorized")},
		{name: "a server that drains is not ready", want: Pass, took: "0 of 1200", story: looked("ready", record.Unknown, "status 500: [-]shutdown failed")},
		{name: "a client is refused", want: Fail, took: "1 of 1201", story: looked("", record.Refused, "status 401 (Unauthorized): Unauthorized")},
		{name: "a last read gets no answer", want: Fail, took: "1 of 1201", story: looked(facts.PurposeFinalRead, record.Unknown, "status 500 (InternalError): no")},
		{name: "a lease is not renewed", want: Fail, took: "1 of 1201", says: "update of k through balancer", story: func() *story {
			s := drained().write(record.OpUpdate, "balancer", "k", "v", 0, 15, 15.1).outcome(record.Unknown)
			s.last().Collection, s.last().Error = "leases", "status 500 (InternalError): etcdserver: request timed out"
			return s
		}},
		{name: "a client's read was answered with something else", want: Fail, took: "1 of 1201", says: "but no ConfigMap k", story: func() *story {
			return drained().read("balancer", "k", record.OtherObject+"status 200, but no ConfigMap k: <html>sorry</html>", 0, 15, 15.1)
		}},
		{name: "a client was answered that a key does not exist that is there", want: Fail, took: "1 of 1201", says: `although "v" had been acknowledged at 5.000s and nothing had deleted it`, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5))
		}},
		{name: "that a key does not exist that was deleted", want: Pass, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5).write(remove, "node-3", "k", "", 0, 6, 7))
		}},
		{name: "that a key does not exist that may have been deleted", want: Pass, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5).write(remove, "node-3", "k", "", 0, 6, 7).outcome(record.Unknown))
		}},
		{name: "that a key does not exist that was deleted meanwhile", want: Pass, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5).write(remove, "node-3", "k", "", 0, 15.05, 16))
		}},
		{name: "that a key does not exist that was made meanwhile", want: Pass, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 14.9, 15.05))
		}},
		{name: "that a key does not exist that others change too", want: Pass, story: func() *story {
			s := notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5))
			s.write(create, "node-1", "own", "v", 102, 6, 7).last().Collection = "c"
			return s
		}},
		{name: "that a key does not exist, and etcd was restored", want: Pass, story: func() *story {
			return notFound(drained().write(create, "node-1", "k", "v", 101, 4, 5).fault("restore", "restore-snapshot", "node-1", "etcd", 8, 9))
		}},
		{name: "a list was answered with something else", want: Fail, took: "1 of 1201", story: func() *story {
			s := listed(record.Unknown, 200, "status 200, but no list: {}")
			s.run.Lists[0].V.Other = s.run.Lists[0].V.Error
			return s
		}},
		{name: "a list got no answer", want: Fail, took: "1 of 1201", says: "list of c through balancer by l (unknown: unexpected EOF), 15.000s to 15.100s", story: func() *story {
			return listed(record.Unknown, 0, "unexpected EOF")
		}},
		{name: "a list of a version that is gone", want: Pass, took: "0 of 1201", story: func() *story {
			return listed(record.Refused, 410, "status 410 (Expired): too old resource version")
		}},
		{name: "a list of a version that the API server does not have yet", want: Pass, took: "0 of 1201", story: func() *story {
			s := listed(record.Unknown, 504, "status 504 (Timeout): Timeout: Too large resource version: 174, current: 124")
			s.run.Lists[0].V.Match, s.run.Lists[0].V.Asked = record.MatchNotOlderThan, "174"
			return s
		}},
		{name: "a list of the newest state was not answered in time", want: Fail, took: "1 of 1201", says: "list of c through balancer by l (unknown: status 504 (Timeout)", story: func() *story {
			return listed(record.Unknown, 504, "status 504 (Timeout): request did not complete")
		}},
		{name: "a list met an internal error", want: Fail, took: "1 of 1201", story: func() *story {
			return listed(record.Unknown, 500, "status 500 (InternalError): etcdserver: request timed out")
		}},
		{name: "a list was not served", want: Fail, took: "1 of 1201", says: "status 503: no server is available", story: func() *story {
			return listed(record.Unknown, 503, "status 503: no server is available to handle this request")
		}},
		{name: "a list was one too many", want: Fail, took: "1 of 1201", story: func() *story {
			return listed(record.Refused, 429, "status 429 (TooManyRequests): too many requests")
		}},
		{name: "a list was forbidden", want: Fail, took: "1 of 1201", story: func() *story {
			return listed(record.Refused, 403, "status 403 (Forbidden): configmaps is forbidden")
		}},
		{name: "a list told to try again", want: Pass, took: "0 of 1202", says: "; 1 of them was answered", story: func() *story {
			return relisted("balancer", 1, record.OK, 200, 16.2)
		}},
		{name: "a list told to try again, and the version is gone", want: Pass, took: "0 of 1202", story: func() *story {
			return relisted("balancer", 1, record.Refused, 410, 16.2)
		}},
		{name: "a list told to try again, in vain", want: Fail, took: "2 of 1202", says: "and once more list of c", story: func() *story {
			return relisted("balancer", 1, record.Unknown, 503, 16.2)
		}},
		{name: "a list told to try again, too early", want: Inconclusive, says: "1 request was answered with a request to retry", story: func() *story {
			return relisted("balancer", 1, record.OK, 200, 15.5)
		}},
		{name: "a list told to try again, elsewhere", want: Pass, took: "0 of 1201", story: func() *story {
			return relisted("node-1", 1, record.OK, 200, 15.5)
		}},
		{name: "a list turned away without a word when to try again", want: Fail, story: func() *story {
			return relisted("balancer", -1, record.OK, 200, 16.2)
		}},
		{name: "a list turned away, in a record of before", want: Inconclusive, says: "1 request was answered with a request to retry", story: func() *story {
			return relisted("balancer", 0, record.OK, 200, 16.2)
		}},
		{name: "every list fails, and nothing else", want: Fail, took: "40 of 1240", story: func() *story {
			s := drained()
			for t := range steps(10, 30, .5) {
				s.list("l", "", t, t+.1)
				l := &s.run.Lists[len(s.run.Lists)-1].V
				l.Entrance, l.Outcome, l.Status, l.Error = "balancer", record.Unknown, 503, "status 503: no server is available"
			}
			return s
		}},
		{name: "a watch was opened", want: Pass, took: "0 of 1201", story: func() *story { return watched(record.WatchOpened, 0, 0, "") }},
		{name: "a watch ended", want: Pass, took: "0 of 1200", story: func() *story { return watched(record.WatchEnded, 0, 0, "unexpected EOF") }},
		{name: "a watch was not served", want: Fail, took: "1 of 1201", says: "watch of things through balancer by c0, refused (status 503: no server is available), 15.000s to 15.000s", story: func() *story {
			return watched(record.WatchRefused, 503, 0, "status 503: no server is available")
		}},
		{name: "a watch reached no server", want: Fail, took: "1 of 1201", story: func() *story { return watched(record.WatchRefused, 0, 0, "connection refused") }},
		{name: "a watch that its client gave up", want: Pass, story: func() *story { return watched(record.WatchRefused, 0, 0, "closed by the client") }},
		{name: "a watch from a version that is gone", want: Pass, story: func() *story { return watched(record.WatchRefused, 410, 0, "status 410 (Expired): too old") }},
		{name: "a watch that is forbidden", want: Fail, took: "1 of 1201", says: "refused (status 403 (Forbidden): no)", story: func() *story { return watched(record.WatchRefused, 403, 0, "status 403 (Forbidden): no") }},
		{name: "a watch by an unknown client", want: Fail, took: "1 of 1201", story: func() *story { return watched(record.WatchRefused, 401, 0, "status 401 (Unauthorized): no") }},
		{name: "a watch of what is not served", want: Fail, took: "1 of 1201", story: func() *story { return watched(record.WatchRefused, 404, 0, "status 404: page not found") }},
		{name: "a watch that is not valid", want: Pass, story: func() *story {
			return watched(record.WatchRefused, 422, 0, "status 422 (Invalid): sendInitialEvents is forbidden")
		}},
		{name: "a watch of a cache that is being filled", want: Pass, story: func() *story {
			return watched(record.WatchRefused, 429, 1, "status 429 (TooManyRequests): storage is (re)initializing")
		}},
		{name: "a watch from a version that the API server does not have yet", want: Pass, story: func() *story {
			s := watched(record.WatchRefused, 504, 0, "status 504 (Timeout): Too large resource version")
			s.run.Watches[0].V.From = "174"
			return s
		}},
		{name: "a watch told to try again", want: Pass, took: "0 of 1202", says: "; 1 of them was answered", story: func() *story {
			return watched(record.WatchRefused, 503, 1, stopping).watching("c0", "v", record.WatchOpened, 16.2, "balancer", "10.77.0.11", "")
		}},
		{name: "a watch told to try again, in vain", want: Fail, took: "2 of 1202", says: "and once more watch of things", story: func() *story {
			s := watched(record.WatchRefused, 503, 1, stopping).watching("c0", "v", record.WatchRefused, 16.2, "balancer", "", "status 503: no server is available")
			s.run.Watches[1].V.Status = 503
			return s
		}},
		{name: "a watch told to try again, elsewhere", want: Pass, took: "0 of 1201", story: func() *story {
			return watched(record.WatchRefused, 503, 1, stopping).watching("c0", "v", record.WatchOpened, 15.2, "node-1", "10.77.0.11", "")
		}},
		{name: "a watch turned away, in a record of before", want: Inconclusive, says: "1 request was answered with a request to retry", story: func() *story {
			return watched(record.WatchRefused, 503, 0, stopping).watching("c0", "v", record.WatchOpened, 16.2, "balancer", "10.77.0.11", "")
		}},
		{name: "a list was answered", want: Pass, took: "0 of 1201", story: func() *story { return listed(record.OK, 200, "") }},
		{name: "a conflict", want: Pass, story: func() *story {
			return refused("status 409 (Conflict): the object has been modified")
		}},
		{name: "an invalid object", want: Pass, story: func() *story { return refused("status 422 (Invalid): too long") }},
		{name: "too many requests", want: Fail, took: "1 of 1201", says: "update of k through balancer", story: func() *story {
			return refused("status 429 (TooManyRequests): too many requests")
		}},
		{name: "the connection is refused", want: Fail, took: "1 of 1201", says: "connection refused", story: func() *story {
			return refused("dial tcp 10.77.0.10:6443: connect: connection refused")
		}},
		{name: "a starved harness", want: Inconclusive, says: "starved", story: func() *story {
			return drained().probe(failed(15, 15.01)).change(func(r *record.Run) { r.Harness[15].V.Late = 2 * time.Second })
		}},
		{name: "no probe", want: Inconclusive, says: "nothing probed balancer for", story: func() *story {
			return newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 30).probes("balancer", true, 1, 12).probes("balancer", true, 20, 58)
		}},
		{name: "too few probes", want: Inconclusive, says: "too few probes through balancer", story: func() *story {
			return newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 30).probes("balancer", true, 1, 9)
		}},
		{name: "no balancer", want: NotApplicable, says: `no entrance "balancer"`, story: func() *story {
			return drained().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
		{name: "each API server that is not hit", want: Pass, says: "through node-1 and node-3", story: func() *story {
			return through(drained().probes("node-1", true, 1, 58).probes("node-2", false, 10, 30).probes("node-3", true, 1, 58))
		}},
		{name: "a zone was hit", want: Pass, says: "requests through node-3 failed", story: func() *story {
			return through(drained().probes("node-1", false, 10, 30).probes("node-3", true, 1, 58)).
				change(func(r *record.Run) { r.Faults[0].V.Node, r.Faults[0].V.Nodes = "", []string{"node-1", "node-2"} })
		}},
		{name: "one failed where only a controller manager was hit", want: Fail, says: "A client of node-1 and node-3 must see no failed request", story: func() *story {
			return through(drained().fault("kcm", "stop", "node-3", "kube-controller-manager", 12, 28).probes("node-1", true, 1, 58).probes("node-3", true, 1, 14).probes("node-3", false, 14, 30))
		}},
		{name: "it failed where another API server was hit", want: Pass, says: "requests through node-1 failed", story: func() *story {
			return through(drained().fault("other", "stop", "node-3", "kube-apiserver", 12, 28).probes("node-1", true, 1, 58).probes("node-3", true, 1, 14).probes("node-3", false, 14, 30))
		}},
		{name: "one of them failed", want: Fail, says: "A client of node-1 and node-3 must see no failed request", story: func() *story {
			p := failed(15, 15.1)
			p.Entrance = "node-3"
			return through(drained().probes("node-1", true, 1, 58).probes("node-3", true, 1, 58).probe(p))
		}},
	})
}
