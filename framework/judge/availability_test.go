package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// unprobed removes the probes of one kind that started between from and to.
func unprobed(kind record.ProbeKind, reused bool, from, to float64) func(*record.Run) {
	return func(r *record.Run) {
		r.Probes = slices.DeleteFunc(r.Probes, func(p record.Timed[record.Probe]) bool {
			return p.V.Kind == kind && p.V.Reused == reused && p.V.Start >= sec(from-0.01) && p.V.Start < sec(to-0.01)
		})
	}
}

// kept has a write on a persistent connection wait for its timeout.
func kept(s *story) *story {
	return s.probe(record.Probe{Entrance: "balancer", Reused: true, Kind: record.ProbeWrite, Start: sec(10.4), End: sec(20.4)})
}

// served gives the probes of a story these servers in turn.
func served(s *story, by ...string) *story {
	for i := range s.run.Probes {
		s.run.Probes[i].V.Server = by[i%len(by)]
	}
	return s
}

func TestAvailability(t *testing.T) {
	base := func() *story { return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30) }
	good := func() *story {
		return base().probes("balancer", true, 5, 9.9).probes("balancer", false, 10, 11.4).probes("balancer", true, 11.5, 35)
	}
	reads := []record.Check{{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"kinds": "read"}}}
	late := func() *story {
		return good().probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(29.9), End: sec(30.05)})
	}
	rule(t, record.Check{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "H + M"}, []ruling{
		{name: "as it should be", story: good, want: Pass, took: "1.35s", says: "(84 of 1194 probes failed), within 4s (H + M, H = 2s, M = 2s)"},
		{name: "no error at all", want: Pass, took: "0s", story: func() *story { return base().probes("balancer", true, 5, 35) }},
		{name: "all clients used another API server", want: Inconclusive, says: "no client of balancer used the API server on node-2 in the 10s before", story: func() *story {
			return served(base().probes("balancer", true, 5, 35), "node-1")
		}},
		{name: "and the balancer uses one at a time", want: NotApplicable, says: "on standby", story: func() *story {
			s := served(base().probes("balancer", true, 5, 35), "node-1")
			s.now = sec(2)
			return add(s, &s.run.Backends, record.Backend{Name: "node-2", Standby: true})
		}},
		{name: "some used the one that was hit", want: Pass, story: func() *story {
			return served(good(), "node-1", "node-2")
		}},
		{name: "errors through others all the same", want: Fail, story: func() *story { return served(late(), "node-1") }},
		{name: "answered after the healing only", want: Inconclusive, says: "still failed when the fault was healed", story: func() *story {
			return base().probes("balancer", true, 5, 27).probes("balancer", false, 27, 29.9).
				probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWrite, Start: sec(29.99), End: sec(31), OK: true}).probes("balancer", true, 31, 35).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "25s"}}
			})
		}},
		{name: "writes still fail at the healing, before the bound", want: Inconclusive, says: "probes through balancer (write) still failed when the fault was healed", story: func() *story {
			s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 13).probes("balancer", true, 5, 35)
			for i := range s.run.Probes {
				if p := &s.run.Probes[i].V; p.Kind == record.ProbeWrite && p.Start >= sec(10) && p.Start < sec(13) {
					p.OK = false
				}
			}
			return s
		}},
		{name: "a kept connection waits for longer", want: Fail, story: func() *story { return kept(good()) }},
		{name: "new connections alone", want: Pass, took: "1.35s", story: func() *story {
			return kept(good()).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: "HA-CL-006", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"connections": "new"}}}
			})
		}},
		{name: "new connections now and then", want: Pass, story: func() *story {
			return good().change(func(r *record.Run) {
				r.Probes = slices.DeleteFunc(r.Probes, func(p record.Timed[record.Probe]) bool {
					return !p.V.Reused && p.V.Start > sec(12) && p.V.Start%sec(2) > sec(0.09) // every 2 s
				})
				r.Meta.Checks = []record.Check{{Requirement: "HA-CL-006", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"connections": "new"}}}
			})
		}},
		{name: "nothing but a watch for some seconds", want: Inconclusive, says: "nothing probed balancer for 2.", story: func() *story {
			return base().probes("balancer", true, 5, 12).probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWatch, Start: sec(12), End: sec(15), OK: true}).probes("balancer", true, 14.5, 35)
		}},
		{name: "watches are not asked for", want: Pass, took: "0s", story: func() *story {
			return base().probes("balancer", true, 5, 35).probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWatch, Start: sec(29), End: sec(29.5)})
		}},
		{name: "watches are asked for", want: Fail, took: "19.5s", says: "(watch on a new connection", story: func() *story {
			s := base().probes("balancer", true, 5, 35)
			for t := range steps(5, 29, 1) {
				s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWatch, Start: sec(t), End: sec(t + 0.1), OK: true})
				s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWatch, Reused: true, Start: sec(t), End: sec(t + 0.1), OK: true})
			}
			s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWatch, Start: sec(29), End: sec(29.5)})
			s.run.Meta.Checks = []record.Check{{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"kinds": "read, watch"}}}
			return s
		}},
		{name: "no such kind", want: Inconclusive, says: `no probe is of kind "list"`, story: func() *story {
			s := good()
			s.run.Meta.Checks = []record.Check{{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"kinds": "list"}}}
			return s
		}},
		{name: "errors for too long", want: Fail, took: "7.35s", says: "A client of balancer must not see errors for longer than 4s", story: func() *story {
			return base().probes("balancer", true, 5, 9.9).probes("balancer", false, 10, 17.4).probes("balancer", true, 17.5, 35)
		}},
		{name: "a single late error", want: Fail, took: "20.05s", story: late},
		{name: "now and then to the end", want: Fail, took: "19.95s", story: func() *story {
			s := good()
			for i := 12; i < 30; i++ {
				s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWrite, Start: sec(float64(i) + 0.9), End: sec(float64(i) + 0.95)})
			}
			return s
		}},
		{name: "errors for too long, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return good().probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(14.9), End: sec(15)}).change(func(r *record.Run) { r.Harness[13].V.Late = time.Second })
		}},
		{name: "a single late error, machine overloaded for some seconds", want: Inconclusive, says: "the machine was overloaded", story: func() *story {
			return overloaded(late(), 26, 27, 28, 29, 30)
		}},
		{name: "a single late error, machine overloaded long before", want: Fail, took: "20.05s", story: func() *story {
			return overloaded(late(), 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25)
		}},
		{name: "errors to the end, machine overloaded for some seconds", want: Fail, story: func() *story {
			return overloaded(base().probes("balancer", true, 5, 9.9).probes("balancer", false, 10, 29).probes("balancer", true, 29, 35), 24, 25, 26, 27, 28, 29)
		}},
		{name: "errors after healing", want: Pass, took: "1.35s", story: func() *story {
			return good().probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(31), End: sec(31.1)})
		}},
		{name: "errors before", want: Inconclusive, says: "already failed before the fault", story: func() *story {
			return good().probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(8), End: sec(8.1)})
		}},
		{name: "nothing before", want: Inconclusive, says: "nothing probed balancer in the 3s before", story: func() *story {
			return base().probes("balancer", true, 10, 35)
		}},
		{name: "no kept connections", want: Inconclusive, says: "read on a persistent connection and write on a persistent connection", story: func() *story {
			return good().change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.Reused = false
				}
			})
		}},
		{name: "probes pause", want: Inconclusive, says: "nothing probed balancer for 2.05s (from 11.350s)", story: func() *story {
			return base().probes("balancer", true, 5, 9.9).probes("balancer", false, 10, 11.4).probes("balancer", true, 13.4, 35)
		}},
		{name: "one kind pauses", want: Inconclusive, says: "no quorum read on a persistent connection was tried for 4.05s (20.050s to 24.100s) through balancer, which is longer than the bound of 4s", story: func() *story {
			return good().change(unprobed(record.ProbeQuorumRead, true, 20.1, 24.1))
		}},
		{name: "one kind pauses for no longer than the bound", want: Pass, took: "1.35s", story: func() *story {
			return good().change(unprobed(record.ProbeQuorumRead, true, 20.1, 24))
		}},
		{name: "one kind ends early", want: Inconclusive, says: "no write on a new connection was tried for 9.95s (20.050s to 30.000s)", story: func() *story {
			return good().change(unprobed(record.ProbeWrite, false, 20.1, 40))
		}},
		{name: "one kind begins late", want: Inconclusive, says: "no read on a new connection was tried for 4.1s (10.000s to 14.100s)", story: func() *story {
			return good().change(unprobed(record.ProbeRead, false, 9.95, 14.1))
		}},
		{name: "one kind pauses while a probe waits", want: Pass, took: "1.35s", story: func() *story {
			return good().change(unprobed(record.ProbeWrite, false, 20.1, 26)).
				probe(record.Probe{Entrance: "balancer", Kind: record.ProbeWrite, Start: sec(21), End: sec(25.9), OK: true})
		}},
		{name: "a kind that is not asked for pauses", want: Pass, took: "1.35s", story: func() *story {
			return good().change(func(r *record.Run) { r.Meta.Checks = reads }).change(unprobed(record.ProbeWrite, false, 20.1, 40))
		}},
		{name: "one kind pauses, another fails", want: Fail, took: "20.05s", story: func() *story {
			return late().change(unprobed(record.ProbeWrite, false, 20.1, 26))
		}},
		{name: "one kind pauses after the healing", want: Pass, took: "1.35s", story: func() *story {
			return good().change(unprobed(record.ProbeWrite, false, 30, 40))
		}},
		{name: "the entrance leaves", want: Pass, took: "0s", says: "Clients of node-3", story: func() *story {
			return base().probes("node-3", true, 5, 25).change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: "HA-CL-003", Judge: "availability", Fault: "kill", Bound: "H + M", Params: map[string]string{"entrance": "node-3"}}}
				r.Nodes = append(r.Nodes, record.Timed[record.NodeChange]{At: sec(27), V: record.NodeChange{Phase: record.NodeRemoved, Node: r.Meta.Nodes[2], Called: sec(25), Effect: sec(27)}})
			})
		}},
		{name: "healed while failing", want: Inconclusive, says: "still failed when the fault was healed after 3s", story: func() *story {
			return newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 13).probes("balancer", true, 5, 9.9).probes("balancer", false, 10, 13).probes("balancer", true, 13, 20)
		}},
		{name: "no such entrance", want: NotApplicable, story: func() *story {
			return good().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
	})
}
