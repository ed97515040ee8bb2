package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// client makes a client with client-go's transport send a request through the balancer every 0.5
// s.
func (s *story) client(name, server string, ok bool, from, to float64) *story {
	for t := range steps(from, to, 0.5) {
		p := record.Probe{Entrance: "balancer", Client: name, Server: server, Reused: true, Kind: record.ProbeQuorumRead, Start: sec(t), End: sec(t + 0.05), OK: ok}
		if !ok {
			p.Error = "http2: client connection lost"
		}
		s.now = p.End
		add(s, &s.run.ClientProbes, p)
	}
	return s
}

func TestClientsRecover(t *testing.T) {
	// The API server of node-2 is silent from 10 s to 30 s. One client is connected to it.
	others := func() *story {
		return newStory().fault("hole", "black-hole", "node-2", "kube-apiserver", 10, 30).
			client("client-go-1", "node-1", true, 1, 40).client("client-go-3", "node-3", true, 1, 40)
	}
	lost := func(until float64) *story {
		return others().client("client-go-2", "node-2", true, 1, 10).client("client-go-2", "node-2", false, 10, until).client("client-go-2", "node-3", true, until, 40)
	}
	check := record.Check{Requirement: "HA-CL-015", Judge: "clients-recover", Fault: "hole", Bound: "15s"}
	rule(t, check, []ruling{
		{name: "as it should be", want: Pass, says: "1 of 3 clients with a persistent HTTP/2 connection through balancer were connected to node-2", story: func() *story { return lost(13) }},
		{name: "no error at all", want: Pass, took: "0s", story: func() *story { return lost(10) }},
		{name: "too late", want: Fail, says: "client-go-2, connected to node-2, saw them for", story: func() *story { return lost(28) }},
		{name: "never, and longer than the bound", want: Fail, says: "must not see errors for longer than", story: func() *story { return lost(30) }},
		{name: "not before it was healed", want: Inconclusive, says: "still failed when the fault was healed", story: func() *story {
			return others().client("client-go-2", "node-2", true, 1, 10).client("client-go-2", "node-2", true, 10.2, 20).client("client-go-2", "node-2", false, 24, 30).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: check.Requirement, Judge: check.Judge, Fault: "hole", Bound: "25s", Level: "MUST"}}
			})
		}},
		{name: "its writes not before it was healed", want: Inconclusive, says: "still failed when the fault was healed", story: func() *story {
			s := lost(13)
			for at := 10.1; at < 30; at += 2 {
				s.now = sec(at + 0.05)
				add(s, &s.run.ClientProbes, record.Probe{Entrance: "balancer", Client: "client-go-2", Server: "node-2", Reused: true, Kind: record.ProbeWrite, Start: sec(at), End: s.now})
			}
			return s.change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: check.Requirement, Judge: check.Judge, Fault: "hole", Bound: "25s", Level: "MUST"}}
			})
		}},
		// The gap that the harness itself must not have: every client was somewhere else.
		{name: "no client is there", want: Inconclusive, says: "no client with a persistent HTTP/2 connection was known to be connected to node-2", story: others},
		{name: "answered after the healing only", want: Inconclusive, says: "still failed when the fault was healed", story: func() *story {
			s := lost(29.5)
			for i := range s.run.ClientProbes {
				if p := &s.run.ClientProbes[i].V; p.Client == "client-go-2" && p.OK && p.Start > sec(29) && p.Start < sec(30) {
					p.End = sec(31)
				}
			}
			return s.change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: check.Requirement, Judge: check.Judge, Fault: "hole", Bound: "25s", Level: "MUST"}}
			})
		}},
		{name: "the balancer uses one server at a time", want: NotApplicable, says: "on standby", story: func() *story {
			s := others()
			s.now = sec(2)
			return add(s, &s.run.Backends, record.Backend{Name: "node-2", Standby: true})
		}},
		{name: "the balancer itself was hit", want: Inconclusive, says: "no client with a persistent HTTP/2 connection was known", story: func() *story {
			return newStory().fault("hole", "kill", "", "load-balancer", 10, 30).client("client-go-1", "node-1", true, 1, 40)
		}},
		{name: "it had moved away before", want: Inconclusive, says: "was known to be connected to node-2", story: func() *story {
			return others().client("client-go-2", "node-2", true, 1, 8).client("client-go-2", "node-1", true, 8, 40)
		}},
		{name: "servers that do not say who they are", want: Inconclusive, says: "was known", story: func() *story {
			return lost(13).change(func(r *record.Run) {
				for i := range r.ClientProbes {
					r.ClientProbes[i].V.Server = ""
				}
			})
		}},
		{name: "a client of another server", want: Fail, says: "client-go-9, connected to node-1", story: func() *story {
			return lost(13).client("client-go-9", "node-1", true, 1, 10).client("client-go-9", "node-1", false, 10, 28).client("client-go-9", "node-1", true, 28, 40)
		}},
		{name: "failed before", want: Inconclusive, says: "already failed", story: func() *story {
			return lost(13).client("client-go-4", "node-1", false, 8, 9)
		}},
		{name: "nothing was asked", want: Inconclusive, says: "so errors may have gone unseen", story: func() *story {
			return others().client("client-go-2", "node-2", true, 1, 10).client("client-go-2", "node-3", true, 22, 40)
		}},
		{name: "nothing was asked for as long as a short bound", want: Inconclusive, says: "so errors may have gone unseen", story: func() *story {
			return others().client("client-go-2", "node-2", true, 1, 10).client("client-go-2", "node-3", true, 15, 40).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: check.Requirement, Judge: check.Judge, Fault: "hole", Bound: "5s", Level: "MUST"}}
			})
		}},
		{name: "a starved harness", want: Inconclusive, says: "starved", story: func() *story {
			return lost(28).change(func(r *record.Run) {
				for i := 12; i < 28; i++ {
					r.Harness[i].V.Late = 2 * time.Second
				}
			})
		}},
		{name: "no balancer", want: NotApplicable, story: func() *story {
			return lost(13).change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
	})
	// The same fault hits node-1 and node-2, one after the other.
	two := func() *story {
		return newStory().fault("first", "isolate", "node-1", "", 10, 20).fault("second", "isolate", "node-2", "", 30, 40).
			client("client-go-3", "node-3", true, 1, 50)
	}
	lostFrom := func(node string, at, until float64) *story {
		return two().client("client-go-1", node, true, 1, at).client("client-go-1", node, false, at, until).client("client-go-1", "node-3", true, until, 50)
	}
	check = record.Check{Requirement: "HA-CL-015", Judge: "clients-recover", Fault: "first", Bound: "6s", Params: map[string]string{"faults": "second"}}
	rule(t, check, []ruling{
		{name: "a client is on the first one", want: Pass, says: "were connected to node-1", story: func() *story { return lostFrom("node-1", 10, 12) }},
		{name: "a client is on the second one", want: Pass, says: "were connected to node-2", story: func() *story { return lostFrom("node-2", 30, 32) }},
		{name: "too late from the second one", want: Fail, says: "client-go-1, connected to node-2", story: func() *story {
			return lostFrom("node-2", 30, 38).client("client-go-2", "node-1", true, 1, 10).client("client-go-2", "node-3", true, 10, 50)
		}},
		{name: "not before the second one was healed", want: Inconclusive, says: "still failed when the fault was healed", story: func() *story {
			return lostFrom("node-2", 37, 41).client("client-go-2", "node-1", true, 1, 10).client("client-go-2", "node-3", true, 10, 50).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: check.Requirement, Judge: check.Judge, Fault: "first", Params: check.Params, Bound: "12s", Level: "MUST"}}
			})
		}},
		{name: "no client is on either", want: Inconclusive, says: "connected to node-1 when", story: two},
	})
}
