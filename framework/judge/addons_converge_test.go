package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// managed is a record of three nodes, each with an add-on manager, that are upgraded at 10, 20
// and 30 s; the last upgrade is complete at 36 s.
func managed() *story {
	s := upgradedAll()
	for i := range s.run.Meta.Nodes {
		s.run.Meta.Nodes[i].Components = append(s.run.Meta.Nodes[i].Components, facts.AddonManager)
	}
	s.run.Meta.Settings["A"] = 2 * time.Second
	return s
}

// applies records that the manager on a node applied an add-on.
func (s *story) applies(node, name string, at float64) *story {
	return add(s, &s.run.Actions, record.Action{Component: facts.AddonManager, Node: node, Via: node, Verb: "patch", Resource: "apps/deployments", Name: name,
		Namespace: "kube-system", Code: 200, User: "system:addon-manager", Received: sec(at), Completed: sec(at + 0.01)})
}

// reads records the version of an add-on through each API server.
func (s *story) reads(name, version string, at float64) *story {
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		o := during(at, at+0.01)
		o.Type, o.Entrance, o.Key, o.Value, o.Found, o.Purpose = record.OpGet, node, "apps/deployments/"+name, version, true, "addon"
		s.op(o)
	}
	return s
}

// fight has the managers overwrite each other's add-on while nodes have different files.
func (s *story) fight() *story {
	return s.applies("node-1", "dns", 17).applies("node-3", "dns", 18).applies("node-1", "dns", 19).applies("node-2", "dns", 27).applies("node-3", "dns", 28)
}

func TestAddonsConverge(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-UP-007", Judge: "addons-converge", Bound: "2A + M"}, []ruling{
		{name: "they agree after the last upgrade", want: Pass, took: "1.01s", says: "applied them 6 times", story: func() *story {
			return managed().fight().applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "what was applied before the first upgrade does not count", want: Pass, says: "applied them 6 times", story: func() *story {
			return managed().applies("node-3", "dns", 5).fight().applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "they go on overwriting each other", want: Fail, says: "the one on node-1 still applied apps/deployments/dns 6.51s after the last upgrade", story: func() *story {
			return managed().fight().applies("node-2", "dns", 37).applies("node-1", "dns", 42.5).reads("dns", release37, 43)
		}},
		{name: "they agree on the old one", want: Fail, says: "through node-1, apps/deployments/dns has v1.36.3", story: func() *story {
			return managed().fight().applies("node-2", "dns", 37).reads("dns", release36, 43)
		}},
		{name: "they agree on the old one, on a loaded machine", want: Inconclusive, says: "7.0 tasks shared each CPU", story: func() *story {
			return managed().fight().applies("node-2", "dns", 37).reads("dns", release36, 43).loaded()
		}},
		{name: "one applies without a pause", want: Fail, says: "the one on node-2 applied apps/deployments/dns 201 times from 20.010s to 29.960s, although it had time for only 7 comparisons", story: func() *story {
			s := managed().fight()
			for i := range 200 {
				s.applies("node-2", "dns", 20+float64(i)/20)
			}
			return s.applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "one applies twelve times within a second, and rarely otherwise", want: Fail, says: "the one on node-2 applied apps/deployments/dns 12 times from 27.510s to 28.610s, although it had time for only 3 comparisons", took: "12 applications", story: func() *story {
			s := managed()
			for i := range 12 {
				s.applies("node-2", "dns", 27.5+float64(i)/10)
			}
			return s.applies("node-1", "dns", 17).applies("node-3", "dns", 36.5).applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "one that was restarted applies again immediately", want: Pass, story: func() *story {
			return managed().fight().applies("node-2", "dns", 29).applies("node-2", "dns", 29.8).applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "one applies twice as often as the interval allows", want: Fail, says: "the one on node-2 applied apps/deployments/dns 24 times from 12.010s to 34.010s, although it had time for only 13 comparisons", took: "24 applications", story: func() *story {
			s := managed().fight()
			for t := range steps(12, 36, 1) {
				s.applies("node-2", "dns", t)
			}
			return s.applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "each applies once per interval", want: Pass, says: "of 48 at most", story: func() *story {
			s := managed()
			for t := range steps(12, 37, 2) {
				s.applies("node-1", "dns", t).applies("node-2", "dns", t+0.5).applies("node-3", "dns", t+1)
			}
			return s.applies("node-2", "dns", 37.5).reads("dns", release37, 43)
		}},
		{name: "one applies two add-ons once per interval each", want: Pass, story: func() *story {
			s := managed().applies("node-3", "dns", 18)
			for t := range steps(12, 37, 2) {
				s.applies("node-1", "dns", t).applies("node-1", "proxy", t+0.1)
			}
			return s.applies("node-2", "dns", 37).reads("dns", release37, 43).reads("proxy", release37, 44)
		}},
		{name: "an application that was refused changes nothing", want: Pass, says: "applied them 6 times", story: func() *story {
			s := managed().fight().applies("node-2", "dns", 37).applies("node-1", "dns", 42.5).reads("dns", release37, 43)
			for i := range s.run.Actions {
				if a := &s.run.Actions[i].V; a.Received == sec(42.5) {
					a.Code = 409
				}
			}
			return s
		}},
		{name: "a manager that did nothing all the while", want: Inconclusive, says: "no add-on that the manager on node-3 applied", story: func() *story {
			return managed().applies("node-1", "dns", 17).applies("node-2", "dns", 18).applies("node-2", "dns", 37).reads("dns", release37, 43)
		}},
		{name: "read too early", want: Inconclusive, says: "were not all read through node-1", story: func() *story {
			return managed().fight().applies("node-2", "dns", 37).reads("dns", release37, 38)
		}},
		{name: "one API server shows fewer", want: Inconclusive, says: "were not all read through node-3", story: func() *story {
			s := managed().fight().applies("node-2", "dns", 37).reads("dns", release37, 43).reads("proxy", release37, 43.5)
			s.run.Ops = s.run.Ops[:len(s.run.Ops)-1]
			return s
		}},
		{name: "no managers", want: NotApplicable, says: "The number of nodes with an add-on manager is 0", story: func() *story {
			s := upgradedAll()
			s.run.Meta.Settings["A"] = 0
			return s
		}},
		{name: "nothing was upgraded", want: Inconclusive, says: "no node was upgraded", story: func() *story {
			s := managed()
			for i := range s.run.Changes {
				s.run.Changes[i].V.Action = "reconfigure"
			}
			return s
		}},
	})
}

// Managers of add-ons act on every node: none of them is elected.
func TestAddonManagersAreNotElected(t *testing.T) {
	s := managed().fight()
	for _, name := range judges.ElectedComponents(s.run) {
		if name == facts.AddonManager {
			t.Errorf("%s counts as elected", name)
		}
	}
}
