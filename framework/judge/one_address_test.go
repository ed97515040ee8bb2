package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// standby is what a node says that would take the address.
func (s *story) standby(name string, since float64) *story {
	return add(s, &s.run.Backends, record.Backend{Name: name, Standby: true, Since: sec(since)})
}

func TestOneAddress(t *testing.T) {
	// cut has node-1, which has the address, be isolated from 10 to 30 s. Each case says who has
	// it afterwards.
	cut := func(then func(*story)) func() *story {
		return func() *story {
			s := newStory().fault("cut", "isolate", "node-1", "", 10, 30).at(1).backend("node-1", true, 0).standby("node-2", 0).standby("node-3", 0)
			then(s)
			return s.change(func(r *record.Run) { sortTimed(r.Backends) })
		}
	}
	healthy := func(s *story) {
		s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 14)
	}
	rule(t, record.Check{Requirement: "HA-CL-016", Judge: "one-address", Fault: "cut", Bound: "5s"}, []ruling{
		{name: "as it should be", want: Pass, took: "4s", says: "The address was on node-2 4s after the isolation of node-1", story: cut(healthy)},
		{name: "two others take it", want: Fail, took: "2 nodes", says: "node-2 and node-3, which clients could both reach, had it for 1.5s (15.000s to 16.500s)", story: cut(func(s *story) {
			healthy(s)
			s.at(15.2).backend("node-3", true, 15).at(17).standby("node-3", 16.5)
		})},
		{name: "one after another", want: Pass, story: cut(func(s *story) {
			healthy(s)
			s.at(20.2).standby("node-2", 20).at(21.2).backend("node-3", true, 21)
		})},
		{name: "kept while it was cut off", want: Pass, story: cut(func(s *story) { s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29) })},
		{name: "kept while it was cut off from the other nodes, and clients reached both", want: Fail,
			says: "node-1 and node-2, which clients could both reach, had it for 15s (14.000s to 29.000s)", story: cut(func(s *story) {
				s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29)
				s.probes("node-1", true, 1, 40)
			})},
		{name: "kept in a split, and clients reached both", want: Fail, says: "had it for 15s", story: func() *story {
			s := cut(func(s *story) { s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29) })().probes("node-1", true, 1, 40)
			return s.change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects = effects["split"]
				}
			})
		}},
		{name: "kept for long enough to be reached for some time", want: Fail, says: "had it for 950ms (20.000s to 20.950s)", story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29)
			s.probes("node-1", false, 10, 20).probes("node-1", true, 20, 21).probes("node-1", false, 21, 30)
		})},
		{name: "given up while it was cut off from the other nodes, and clients reached both", want: Pass, says: "The address was on node-2 4s after", story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 13)
			s.probes("node-1", true, 1, 40)
		})},
		{name: "kept while it was cut off, from clients too", want: Pass, story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29)
			s.probes("node-1", true, 1, 10).probes("node-1", false, 10, 30).probes("node-1", true, 30, 40)
		})},
		{name: "kept while it was cut off, and one probe was answered", want: Pass, story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 29)
			s.probes("node-1", false, 10, 20).probe(record.Probe{Entrance: "node-1", Kind: record.ProbeRead, Start: sec(20), End: sec(20.05), OK: true}).probes("node-1", false, 20.1, 30)
		})},
		{name: "kept while it was cut off, and answered once it was being healed", want: Pass, story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 30.9)
			s.probes("node-1", false, 10, 30).probes("node-1", true, 30.1, 40)
		})},
		{name: "kept afterwards", want: Fail, says: "node-2 and node-1, which clients could both reach, had it for 2s (31.000s to 33.000s)", story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(31.5).backend("node-1", true, 0).at(33.2).standby("node-1", 33)
		})},
		{name: "given up between two looks", want: Fail, says: "had it for 400ms", story: cut(func(s *story) {
			s.at(14.2).backend("node-2", true, 14).at(31.5).standby("node-1", 31.4)
		})},
		{name: "too late", want: Fail, took: "8s", says: "for 8s it was on no node that clients could reach", story: cut(func(s *story) { s.at(18.2).backend("node-2", true, 18).at(32).standby("node-1", 14) })},
		{name: "no node takes it", want: Fail, says: "it was on no node", story: cut(func(s *story) { s.at(32).standby("node-1", 14) })},
		{name: "lost again when the node is back", want: Fail, says: "for 20s", story: cut(func(s *story) {
			healthy(s)
			s.at(40.2).standby("node-2", 40)
		})},
		{name: "handed back", want: Pass, story: cut(func(s *story) {
			healthy(s)
			s.at(40.2).standby("node-2", 40).at(40.4).backend("node-1", true, 40.1)
		})},
		{name: "not the node with the address", want: Inconclusive, says: "does not show that the isolation of node-1 hit", story: func() *story {
			return newStory().fault("cut", "isolate", "node-1", "", 10, 30).at(1).backend("node-2", true, 0).standby("node-1", 0).at(32).standby("node-1", 0)
		}},
		{name: "not asked afterwards", want: Inconclusive, says: "before both nodes reported", story: cut(func(s *story) { s.at(14.2).backend("node-2", true, 14) })},
		{name: "all nodes have it from the start", want: Fail, took: "2 nodes", says: "node-1 and node-2, which clients could both reach, had it for 9s (", story: func() *story {
			s := newStory().fault("cut", "isolate", "node-1", "", 10, 30)
			for _, n := range threeNodes {
				s.at(1).backend(n, true, 0).at(40).backend(n, true, 0)
			}
			return s.change(func(r *record.Run) {
				sortTimed(r.Backends)
				for i := range r.Backends {
					r.Backends[i].V.Holder = true
				}
			})
		}},
		{name: "another way of balancing", want: NotApplicable, says: "no node has an address that others stand by for", story: func() *story {
			return newStory().fault("cut", "isolate", "node-1", "", 10, 30).at(1).backend("node-1", true, 0).backend("node-2", true, 0)
		}},
		{name: "without power, and answering while it boots", want: Pass, story: func() *story {
			s := cut(func(s *story) { s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 30.5) })().probes("node-1", true, 28, 40)
			return s.change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects = effects["reboot"]
				}
			})
		}},
		{name: "without power", want: Pass, story: func() *story {
			s := cut(func(s *story) { s.at(14.2).backend("node-2", true, 14).at(32).standby("node-1", 31.5) })()
			return s.change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects = effects["power-off"]
				}
			})
		}},
	})
}
