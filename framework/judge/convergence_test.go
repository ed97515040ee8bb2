package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

var (
	allThree = []string{"10.77.0.11", "10.77.0.12", "10.77.0.13"}
	without2 = []string{"10.77.0.11", "10.77.0.13"}
)

// watched kills node-2's API server at 10 s and heals it at 50 s (proven at
// 51 s); the state of the service follows from the times given: gone and back.
func watched(gone, back float64) *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 50)
	for i := range 60 {
		t := float64(i)
		for _, via := range []string{"node-1", "node-3"} {
			if s.at(t); t >= gone && t < back {
				s.endpoints(via, without2...)
			} else {
				s.endpoints(via, allThree...)
			}
		}
	}
	return s
}

// newLeaders has etcd elect another leader at these times.
func newLeaders(s *story, times ...float64) *story {
	s.at(5).etcd("node-1", "m1", 2)
	for i, t := range times {
		s.at(t).etcd("node-1", "m3", uint64(3+i))
	}
	return s
}

func TestEndpointRemoved(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-EP-003", Judge: "endpoint-removed", Fault: "kill", Bound: "T + I + M"}, []ruling{
		{name: "as it should be", story: func() *story { return watched(28, 53) }, want: Pass, took: "18s",
			says: "The address of node-2 (10.77.0.12) left Endpoints and EndpointSlice 18s after the kill of kube-apiserver on node-2, within 27s"},
		{name: "too late", story: func() *story { return watched(40, 53) }, want: Fail, took: "30s", says: "within 27s"},
		{name: "never", story: func() *story { return watched(99, 99) }, want: Fail, took: "39s", says: "was still listed in endpoints through node-1 after 39s"},
		{name: "back before it was healed", story: func() *story { return watched(28, 45) }, want: Fail, says: "left endpoints through node-1 18s after the kill of kube-apiserver on node-2, and was listed again at 45.000s"},
		{name: "back before it was healed, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watched(28, 45).change(func(r *record.Run) { r.Harness[40].V.Late = 5 * time.Second })
		}},
		{name: "a new leader renewed its lease", want: Pass, took: "26.5s", story: func() *story { return newLeaders(watched(39, 53), 12.5) },
			says: "left Endpoints and EndpointSlice 26.5s after the election of another etcd leader, which renewed the leases of all addresses, under the kill of kube-apiserver on node-2, within 28s (T + I + M + E"},
		{name: "two new leaders renewed its lease", want: Pass, story: func() *story { return newLeaders(watched(47, 53), 12.5, 20.5) }},
		{name: "a new leader renewed its lease, and that is over", want: Fail, took: "28.5s", story: func() *story { return newLeaders(watched(41, 53), 12.5) }},
		{name: "a new leader when its lease had run out", want: Fail, took: "30s", story: func() *story { return newLeaders(watched(40, 53), 29) }},
		{name: "a new leader before that", want: Fail, took: "30s", story: func() *story { return newLeaders(watched(40, 53), 8) }},
		{name: "slice too late", want: Fail, took: "39s", says: "endpointslice through node-3", story: func() *story {
			return watched(28, 53).change(func(r *record.Run) {
				for i := range r.Endpoints {
					if e := &r.Endpoints[i]; e.V.Source == "endpointslice" && e.V.Via == "node-3" {
						e.V.Addresses = allThree
					}
				}
			})
		}},
		{name: "what the lost server says does not count", want: Pass, story: func() *story {
			return watched(28, 53).at(9).endpoints("node-2", allThree...).at(45).endpoints("node-2", allThree...)
		}},
		{name: "one entrance is slower", want: Pass, took: "20s", story: func() *story {
			return watched(28, 53).at(9).endpoints("balancer", allThree...).at(29).endpoints("balancer", allThree...).at(30).endpoints("balancer", without2...)
		}},
		{name: "a watch tells late what a reading has told", want: Pass, took: "18s", story: func() *story {
			s := watched(28, 53)
			for i := range s.run.Endpoints {
				s.run.Endpoints[i].V.Revision = "100"
				if len(s.run.Endpoints[i].V.Addresses) == 2 {
					s.run.Endpoints[i].V.Revision = "101"
				}
			}
			s.run.Endpoints = s.run.Endpoints[:4*50]
			s.at(49.5).endpoints("node-1", allThree...)
			s.run.Endpoints[len(s.run.Endpoints)-1].V.Revision, s.run.Endpoints[len(s.run.Endpoints)-2].V.Revision = "100", "100"
			return s
		}},
		{name: "late through a node that another fault hits", want: Pass, took: "18s", story: func() *story {
			return watched(28, 53).fault("other", "freeze", "node-3", "kube-apiserver", 12, 45).change(func(r *record.Run) {
				for i := range r.Endpoints {
					if e := &r.Endpoints[i]; e.V.Via == "node-3" && e.At < sec(45) {
						e.V.Addresses = allThree
					}
				}
			})
		}},
		{name: "late through a node that another fault hit for a moment", want: Fail, took: "35s", story: func() *story {
			return watched(28, 53).fault("other", "compact", "node-3", "etcd", 12, 12).change(func(r *record.Run) {
				for i := range r.Endpoints {
					if e := &r.Endpoints[i]; e.V.Via == "node-3" && e.At < sec(45) {
						e.V.Addresses = allThree
					}
				}
			})
		}},
		{name: "was not listed", story: func() *story { return watched(5, 53) }, want: Inconclusive, says: "did not list node-2 (10.77.0.12) before the fault"},
		{name: "healed too early", want: Inconclusive, says: "but was not watched for the whole bound", story: func() *story {
			return watched(99, 99).change(func(r *record.Run) { r.Faults[1].V.Called = sec(20) })
		}},
		{name: "one entrance lists it until nothing is read through it", want: Inconclusive, says: "default/kubernetes was last seen with node-2 (10.77.0.12) in endpoints through node-3 and endpointslice through node-3, which were not read afterwards", story: func() *story {
			return watched(28, 53).change(func(r *record.Run) {
				r.Endpoints = slices.DeleteFunc(r.Endpoints, func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At > sec(36) })
				for i := range r.Endpoints {
					if e := &r.Endpoints[i]; e.V.Via == "node-3" {
						e.V.Addresses = allThree
					}
				}
			})
		}},
		{name: "one entrance is not read at all", want: Inconclusive, says: "in endpoints through node-3", story: func() *story {
			return watched(28, 53).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At >= sec(10) }))
		}},
		{name: "one entrance is read last just before it leaves and the fault is healed", want: Pass, story: func() *story {
			return watched(28, 53).change(func(r *record.Run) {
				r.Faults[1].V.Called = sec(30)
				r.Endpoints = slices.DeleteFunc(r.Endpoints, func(e record.Timed[record.Endpoints]) bool {
					return e.V.Via == "node-3" && e.At >= sec(28) && e.At < sec(31)
				})
			})
		}},
		{name: "slices not read", want: Inconclusive, says: "the endpointslice of default/kubernetes did not list", story: func() *story {
			return watched(28, 53).change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Source = "endpoints"
				}
			})
		}},
	})
}

// A fault may take time: the API server that it stops may have left the list long before it is
// gone.
func TestEndpointRemovedSinceCall(t *testing.T) {
	slow := func(gone float64) func() *story {
		return func() *story {
			return watched(gone, 53).change(func(r *record.Run) { r.Faults[0].V.Called, r.Faults[0].V.Effect = sec(10), sec(25) })
		}
	}
	check := record.Check{Requirement: "HA-EP-002", Judge: "endpoint-removed", Fault: "kill", Bound: "I", Params: map[string]string{"since": "call"}}
	rule(t, check, []ruling{
		{name: "as it should be", story: slow(12), want: Pass, took: "2s"},
		{name: "too late", story: slow(22), want: Fail, took: "12s", says: "only after 12s"},
	})
	check.Params = map[string]string{"since": "effect"}
	rule(t, check, []ruling{{name: "from its effect", story: slow(27), want: Pass, took: "2s"}})
	check.Params = map[string]string{"since": "then"}
	rule(t, check, []ruling{{name: "from nowhere", story: slow(12), want: Inconclusive, says: "want call or effect"}})
}

func TestEndpointReturned(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-EP-006", Judge: "endpoint-returned", Fault: "kill", Bound: "3s + M"}, []ruling{
		{name: "as it should be", story: func() *story { return watched(28, 53) }, want: Pass, took: "2s", says: "was back in Endpoints and EndpointSlice 2s after"},
		{name: "before the proof", story: func() *story { return watched(28, 50) }, want: Pass, took: "0s"},
		{name: "too late", story: func() *story { return watched(28, 58) }, want: Fail, took: "7s", says: "only after 7s"},
		{name: "never", story: func() *story { return watched(28, 99) }, want: Fail, took: "8s", says: "was still not in endpoints through node-1 after 8s"},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watched(28, 58).change(func(r *record.Run) { r.Harness[55].V.Late = time.Second })
		}},
		{name: "leaves again", want: Fail, says: "was added to endpoints through node-1 at 53.000s, and left it again at 60.000s", story: func() *story {
			return watched(28, 53).at(60).endpoints("node-1", without2...)
		}},
		{name: "leaves again, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watched(28, 53).at(60).endpoints("node-1", without2...).change(func(r *record.Run) { r.Harness[50].V.Late = 5 * time.Second })
		}},
		{name: "leaves again by another fault", want: Pass, story: func() *story {
			return watched(28, 53).fault("again", "kill", "node-2", "kube-apiserver", 57, 58).at(60).endpoints("node-1", without2...)
		}},
		{name: "leaves again as its node is changed in place", want: Pass, story: func() *story {
			return watched(28, 53).inPlace("", "reconfigure", "node-2", "", "", 57, 59, "kube-apiserver").at(60).endpoints("node-1", without2...)
		}},
		{name: "leaves again long after its node was changed in place", want: Fail, says: "left it again at 60.000s", story: func() *story {
			return watched(28, 53).inPlace("", "reconfigure", "node-2", "", "", 5, 8, "kube-apiserver").at(60).endpoints("node-1", without2...)
		}},
		{name: "leaves again with its node", want: Pass, story: func() *story {
			return watched(28, 53).changed("", record.NodeRemoved, "node-2", "10.77.0.12", 57, 58).at(60).endpoints("node-1", without2...)
		}},
		{name: "one entrance does not list it until nothing is read through it", want: Inconclusive, says: "endpoints through node-3", story: func() *story {
			return watched(28, 53).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At >= sec(52) }))
		}},
		{name: "never left", story: func() *story { return watched(99, 99) }, want: Inconclusive, says: "was not seen to have dropped node-2"},
		{name: "record ends too early", want: Inconclusive, says: "the record ends after 2s", story: func() *story {
			return watched(28, 99).change(func(r *record.Run) { r.EndAt = sec(53) })
		}},
	})
}

// taken makes node-2 hold the scheduler's lease until it is killed at 10 s, and node-3 from then
// on.
func taken(then float64) *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-scheduler", 10, 40)
	for i := 0; i <= 60; i += 2 {
		if t := float64(i); t < then {
			s.at(t).lease("kube-scheduler", "node-2_b", 100+min(i, 10), min(t, 10))
		} else {
			s.at(t).lease("kube-scheduler", "node-3_c", 200+i, t)
		}
	}
	return s
}

// neverRenewed has node-3 take over at 26 s and not renew the lease.
func neverRenewed() *story {
	return taken(26).change(func(r *record.Run) {
		for i := range r.Leases {
			if l := &r.Leases[i].V; l.HolderNode == "node-3" {
				l.Revision, l.Renew = "226", time.Unix(26, 0)
			}
		}
	})
}

// followed has node-3 take over at 26 s and not renew the lease, which node-1 does from some
// time on.
func followed(from float64) *story {
	s := taken(26)
	for i := range s.run.Leases {
		switch l := &s.run.Leases[i]; {
		case l.At >= sec(from):
			l.V.Holder, l.V.HolderNode = "node-1_d", "node-1"
		case l.V.HolderNode == "node-3":
			l.V.Revision, l.V.Renew = "226", time.Unix(26, 0)
		}
	}
	return s
}

// coordinated has API servers elect the active instances.
func coordinated(r *record.Run) {
	for i := range r.Leases {
		r.Leases[i].V.Strategy = "OldestEmulationVersion"
	}
}

// TestTakeoverCoordinated: the election controller adds 10 s. If its API server may be hit, another
// one takes over from it in 23.8 s, while the lease expires.
func TestTakeoverCoordinated(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + P + M", Params: map[string]string{"component": "kube-scheduler"}}, []ruling{
		{name: "in time", want: Pass, took: "26s", says: "within 29s (L + P + M + coordinated election, L = 15s, M = 2s, P = 2s, coordinated election = 10s)", story: func() *story { return taken(36).change(coordinated) }},
		{name: "too late", want: Fail, took: "34s", story: func() *story { return taken(44).change(coordinated) }},
		{name: "not coordinated", want: Fail, took: "26s", story: func() *story { return taken(36) }},
		{name: "coordinated from the takeover on", want: Fail, took: "26s", story: func() *story {
			return taken(36).change(func(r *record.Run) {
				for i := range r.Leases {
					if r.Leases[i].At >= sec(36) {
						r.Leases[i].V.Strategy = "OldestEmulationVersion"
					}
				}
			})
		}},
	})
	nodeLost := func(at float64, lease time.Duration) func() *story {
		return func() *story {
			return taken(at).change(coordinated).change(func(r *record.Run) {
				r.Meta.Settings["L"] = lease
				for i := range r.Faults {
					r.Faults[i].V.Component = ""
				}
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + P + M", Params: map[string]string{"component": "kube-scheduler"}}, []ruling{
		{name: "the election controller is lost, too, and the bound is short", want: Pass, took: "34s", says: "within 35.8s (L + P + M + coordinated election + election controller,", story: nodeLost(44, 15*time.Second)},
	})
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + 4.4P + M", Params: map[string]string{"component": "kube-scheduler"}}, []ruling{
		{name: "the election controller is lost, too", want: Pass, took: "34s", says: "within 35.8s (L + 4.4P + M + coordinated election,", story: nodeLost(44, 15*time.Second)},
		{name: "the election controller is lost, too, and it takes too long", want: Fail, took: "36s", says: "within 35.8s", story: nodeLost(46, 15*time.Second)},
		{name: "the election controller takes longer than the lease to expire", want: Pass, took: "34s", says: "within 35.8s (L + 4.4P + M + coordinated election + election controller,", story: nodeLost(44, 8*time.Second)},
	})
}

// leaderLost adds the terms in which etcd's members were before and after 12 s, by an election timeout.
func leaderLost(s *story, timeout time.Duration, term uint64) *story {
	s.at(5).etcd("node-3", "m1", 2).at(12).etcd("node-3", "m3", term).run.Meta.Settings["E"] = timeout
	return s
}

func TestTakeover(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + P + M"}, []ruling{
		{name: "as it should be", story: func() *story { return taken(26) }, want: Pass, took: "16s",
			says: "node-3_c on node-3 took over kube-scheduler from node-2_b 16s after the kill of kube-scheduler on node-2, within 19s (L + P + M"},
		{name: "too late", story: func() *story { return taken(32) }, want: Fail, took: "22s", says: "node-3_c on node-3 took over only after 22s"},
		{name: "never", story: func() *story { return taken(99) }, want: Fail, took: "50s", says: "none did; node-2_b still held the lease after 50s"},
		{name: "while etcd elected a leader, for longer than a standby waits anyway", want: Pass, took: "22s", says: "within 25s (L + P + M + election of etcd, L = 15s, M = 2s, P = 2s, election of etcd = 6s)", story: func() *story {
			return leaderLost(taken(32), 3*time.Second, 3)
		}},
		{name: "too late for that, too", want: Fail, took: "26s", says: "within 25s", story: func() *story { return leaderLost(taken(36), 3*time.Second, 3) }},
		{name: "while etcd elected one in the time that a standby waits anyway", want: Fail, took: "22s", says: "within 19s", story: func() *story {
			return leaderLost(taken(32), 2*time.Second, 3)
		}},
		{name: "while etcd had its leader, with a long election timeout", want: Fail, took: "22s", says: "within 19s", story: func() *story {
			return leaderLost(taken(32), 3*time.Second, 2)
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return taken(32).change(func(r *record.Run) { r.Harness[31].V.Late = 2 * time.Second })
		}},
		{name: "watched too short", want: Inconclusive, says: "less than the bound", story: func() *story {
			return taken(99).change(func(r *record.Run) { r.Leases = r.Leases[:12] })
		}},
		{name: "the old one acts again", want: Fail, says: "node-3_c took over at 26.000s, and node-2_b held the lease again at 61.000s", story: func() *story {
			return taken(26).change(func(r *record.Run) { r.EndAt = sec(62) }).at(61).lease("kube-scheduler", "node-2_b", 900, 61)
		}},
		{name: "a late reading of the old one", want: Pass, story: func() *story {
			return taken(26).at(27).lease("kube-scheduler", "node-2_b", 110, 10)
		}},
		{name: "by a stranger", want: Fail, says: "none did; stranger, which is on no node, still held the lease after 50s", story: func() *story {
			return taken(26).change(func(r *record.Run) {
				for i := range r.Leases {
					if l := &r.Leases[i].V; l.HolderNode == "node-3" {
						l.Holder, l.HolderNode = "stranger", "stranger"
					}
				}
			})
		}},
		{name: "by a stranger at first", want: Pass, took: "16s", story: func() *story {
			return taken(26).at(20).lease("kube-scheduler", "stranger", 150, 20)
		}},
		{name: "and never renewed", want: Fail, took: "34s", says: "must renew its lease within 12s (R + M, M = 2s, R = 10s): node-3_c on node-3 held it from 26.000s on, and did not renew it for 34s", story: neverRenewed},
		{name: "and not renewed while the harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return neverRenewed().change(func(r *record.Run) {
				for i := range r.Harness {
					if r.Harness[i].At > sec(37) {
						r.Harness[i].V.Late = 2 * time.Second
					}
				}
			})
		}},
		{name: "and never renewed, until another one takes over from it", want: Fail, says: "node-3_c on node-3 held it from 26.000s on, and did not renew it for 16s", story: func() *story {
			return followed(44)
		}},
		{name: "and followed soon by another one", want: Pass, story: func() *story { return followed(30) }},
		{name: "and not renewed before the next fault", want: Inconclusive, says: "was not seen to renew the lease in the 2s", story: func() *story {
			return neverRenewed().fault("next", "kill", "node-3", "kube-scheduler", 29, 35)
		}},
		{name: "and nothing done with work at hand", want: Inconclusive, says: "did nothing in the 34s afterwards, though node-2_b had acted 4 times", story: func() *story {
			return taken(26).action("node-2", 5).action("node-2", 6).action("node-2", 7).action("node-2", 8)
		}},
		{name: "and the work done", want: Pass, says: "and renewed its lease; node-2_b did not hold it again", story: func() *story {
			return taken(26).action("node-2", 5).action("node-2", 6).action("node-2", 7).action("node-2", 8).action("node-3", 27)
		}},
		{name: "two holders", want: Fail, says: "must never have two holders: version 230", story: func() *story {
			return taken(26).at(31).lease("kube-scheduler", "node-2_b", 230, 30)
		}},
		{name: "given up in between", want: Pass, took: "16s", story: func() *story {
			return taken(26).at(20).lease("kube-scheduler", "", 150, 20)
		}},
		{name: "another was active", want: Inconclusive, says: "did not hit the active instance of kube-scheduler, which was node-2_b on node-2", story: func() *story {
			return taken(26).change(func(r *record.Run) { r.Faults[0].V.Node = "node-1" })
		}},
		{name: "not seen before", want: Inconclusive, says: "does not show who held the lease", story: func() *story {
			return taken(26).change(func(r *record.Run) { r.Leases = r.Leases[8:] })
		}},
	})
}

// An instance that releases its lease when it stops is followed sooner than one whose lease
// expires.
func TestTakeoverOfReleased(t *testing.T) {
	check := record.Check{Requirement: "HA-LE-003", Judge: "takeover", Fault: "kill", Bound: "L + 4.4P + M", Params: map[string]string{"released": "2.2P + M"}}
	rule(t, check, []ruling{
		{name: "given up", want: Pass, took: "5s", says: "within 6.4s (2.2P + M, M = 2s, P = 2s), since the previous holder had released its lease", story: func() *story {
			return taken(16).at(11).lease("kube-scheduler", "", 150, 11)
		}},
		{name: "given up, and nobody takes it", want: Fail, took: "15s", says: "within 6.4s", story: func() *story {
			return taken(26).at(11).lease("kube-scheduler", "", 150, 11)
		}},
		{name: "given up, coordinated", want: Pass, took: "15s", says: "within 16.4s (2.2P + M + coordinated election", story: func() *story {
			return taken(26).at(11).lease("kube-scheduler", "", 150, 11).change(coordinated)
		}},
		{name: "not given up", want: Pass, took: "16s", says: "within 25.8s (L + 4.4P + M", story: func() *story { return taken(26) }},
		{name: "deleted", want: Pass, took: "16s", says: "within 25.8s", story: func() *story {
			return taken(26).at(11).lease("kube-scheduler", "", 0, 11).change(func(r *record.Run) { r.Leases[len(r.Leases)-1].V.Revision = "" })
		}},
	})
}

// The bound of a component follows its own settings, not those of another.
func TestBoundOfComponent(t *testing.T) {
	elections := func(lease time.Duration) func(*record.Run) {
		return func(r *record.Run) {
			r.Meta.Settings["L"] = time.Hour
			r.Meta.Elections = map[string]map[string]time.Duration{
				"kube-scheduler":          {"L": lease, "R": 10 * time.Second, "P": 2 * time.Second},
				"kube-controller-manager": {"L": time.Hour, "R": 10 * time.Second, "P": 2 * time.Second},
			}
		}
	}
	rule(t, record.Check{Requirement: "HA-LE-002", Judge: "takeover", Fault: "kill", Bound: "L + P + M"}, []ruling{
		{name: "within its own", want: Pass, took: "16s", says: "within 19s (L + P + M, L = 15s", story: func() *story { return taken(26).change(elections(15 * time.Second)) }},
		{name: "within another's", want: Fail, took: "22s", says: "within 19s", story: func() *story { return taken(32).change(elections(15 * time.Second)) }},
		{name: "a record of before", want: Pass, took: "22s", says: "L = 1h0m0s", story: func() *story {
			return taken(32).change(elections(time.Hour)).change(func(r *record.Run) { r.Meta.Elections = nil })
		}},
	})
}
