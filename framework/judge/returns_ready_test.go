package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// users makes an account whose permissions come from a role read through the balancer on new
// connections, every 0.1 s; every third read goes to node-2 if that is used.
func (s *story) users(used bool, from, to float64) *story {
	n := 0
	for t := range steps(from, to, 0.1) {
		server := []string{"node-1", "node-3", "node-2"}[n%3]
		if server == "node-2" && !used {
			server = "node-1"
		}
		s.user(server, 200, t)
		n++
	}
	return s
}

// user lets it read once.
func (s *story) user(server string, status int, at float64) *story {
	p := fresh("balancer", server, status, at)
	p.User = "holdfast-user"
	s.now = p.End
	return add(s, &s.run.UserProbes, p)
}

func TestReturnsReady(t *testing.T) {
	// It is started again at 30 s, and the balancer uses it from 34 s on.
	out := func() *story {
		return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30).users(false, 25, 34)
	}
	back := func() *story { return out().users(true, 34, 50) }
	fallen := func(s *story, status int) *story { return s.user("node-2", status, 30.8) }
	rule(t, record.Check{Requirement: "HA-CL-013", Judge: "returns-ready", Fault: "kill"}, []ruling{
		{name: "as it should be", story: back, want: Pass, says: "reached it, the first one 4.2s after it was started"},
		{name: "403 before the roles are known", want: Fail, says: "1 of ", story: func() *story { return fallen(back(), 403) }},
		{name: "401", want: Fail, story: func() *story { return fallen(back(), 401) }},
		{name: "404 for what exists", want: Fail, story: func() *story { return fallen(back(), 404) }},
		{name: "a server that does not say who it is", want: Fail, story: func() *story { return back().user("", 403, 30.8) }},
		{name: "an administrator", want: Fail, story: func() *story { return back().probe(fresh("balancer", "node-2", 401, 30.8)) }},
		{name: "a kept HTTP/2 connection", want: Fail, says: "client-go-1", story: func() *story {
			p := fresh("balancer", "node-2", 403, 30.8)
			p.Client, p.Reused = "client-go-1", true
			s := back()
			return add(s, &s.run.ClientProbes, p)
		}},
		{name: "restarted by its process watcher, before the fault is declared healed", want: Fail, story: func() *story { return back().user("node-2", 403, 28) }},
		{name: "refused, and not used afterwards", want: Fail, story: func() *story { return fallen(out().users(false, 34, 50), 403) }},
		{name: "a server that is not ready", want: Pass, story: func() *story { return fallen(back(), 503) }},
		{name: "its own entrance", want: Pass, story: func() *story { return back().probe(fresh("node-2", "node-2", 403, 30.8)) }},
		{name: "after another fault", want: Pass, story: func() *story {
			return back().fault("again", "kill", "node-3", "kube-apiserver", 50, 55).user("node-2", 403, 56)
		}},
		// Cases that may have another cause.
		{name: "refused before the fault", want: Inconclusive, says: "before the fault, or by an API server that it did not hit", story: func() *story { return fallen(back().user("node-2", 403, 5), 403) }},
		{name: "refused by another server", want: Inconclusive, says: "that it did not hit", story: func() *story { return fallen(back().user("node-1", 403, 31), 403) }},
		{name: "never allowed", want: Inconclusive, says: "not known whether the refused requests are allowed", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30).user("node-2", 403, 30.8).user("node-2", 403, 30.9)
		}},
		// Cases that may hide a broken cluster.
		{name: "none reached it", want: Inconclusive, says: "too few to say how it answers", story: func() *story { return out().users(false, 34, 50) }},
		{name: "only administrators asked", want: Inconclusive, says: "no account whose rights come from a role", story: func() *story {
			s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30)
			for at := range steps(34, 40, 1) {
				s.probe(fresh("balancer", "node-2", 200, at))
			}
			return s
		}},
		{name: "nothing was asked in the first moments", want: Inconclusive, says: "refusals may have gone unseen", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30).users(false, 25, 31).users(true, 33, 50)
		}},
		{name: "it stands by", want: NotApplicable, says: "one API server at a time", story: func() *story {
			return out().users(false, 34, 50).at(40).change(func(r *record.Run) {
				r.Backends = append(r.Backends, record.Timed[record.Backend]{At: sec(40), V: record.Backend{Name: "node-2", Standby: true}})
			})
		}},
		{name: "a zone", want: Inconclusive, says: "which is not a control-plane node", story: func() *story {
			return fallen(back(), 403).change(func(r *record.Run) {
				r.Faults[0].V.Node, r.Faults[0].V.Nodes, r.Faults[0].V.Target = "", []string{"node-2"}, "zone/b"
			})
		}},
		{name: "no balancer", want: NotApplicable, story: func() *story {
			return back().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
		{name: "not proven", want: Inconclusive, says: "no proof", story: func() *story {
			return fallen(back(), 403).change(func(r *record.Run) { r.Faults[0].V.Proven = false })
		}},
		{name: "a late harness does not answer 403", want: Fail, story: func() *story {
			return fallen(back(), 403).change(func(r *record.Run) {
				for i := 25; i < 35; i++ {
					r.Harness[i].V.Late = 2 * time.Second
				}
			})
		}},
	})
}
