package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// steadily makes two API servers report the set of all three every second, at growing versions,
// while their processes run.
func steadily() *story {
	s := newStory()
	for i, n := range []string{"node-1", "node-2", "node-3"} {
		s.at(0.5).process(n, "kube-apiserver", 10+i)
	}
	for i := range 60 {
		s.set(float64(i), 100+10*i, allThree...)
	}
	return s
}

// set adds a state at a version, through two entrances.
func (s *story) set(t float64, version int, addresses ...string) *story {
	for _, via := range []string{"node-1", "node-3"} {
		s.at(t).endpoints(via, addresses...)
		for i := len(s.run.Endpoints) - len(facts.Sources); i < len(s.run.Endpoints); i++ {
			s.run.Endpoints[i].V.Revision = fmt.Sprint(version)
		}
	}
	return s
}

// flapped is a change that only a watch through node-3 saw, told after the sample
// of the version after it.
func flapped(s *story, t float64, addresses ...string) *story {
	s.at(t)
	return add(s, &s.run.Endpoints, record.Endpoints{Source: "endpoints", Via: "node-3", Addresses: addresses, Revision: fmt.Sprint(100 + 10*int(t) - 5)})
}

// forget takes states out of a record.
func forget(which func(record.Timed[record.Endpoints]) bool) func(*record.Run) {
	return func(r *record.Run) { r.Endpoints = slices.DeleteFunc(r.Endpoints, which) }
}

func TestEndpointsStable(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-EP-007", Judge: "endpoints-stable", Bound: "3T"}, []ruling{
		{name: "as it should be", story: steadily, want: Pass, took: "59s", says: "stayed [10.77.0.11 10.77.0.12 10.77.0.13] for 59s, longer than 45s (3T, T = 15s), as 240 states show"},
		{name: "in another order", want: Pass, story: func() *story { return steadily().set(30.5, 405, "10.77.0.13", "10.77.0.11", "10.77.0.12") }},
		{name: "flaps", want: Fail, says: "endpoints through node-1 held [10.77.0.11 10.77.0.12 10.77.0.13] at 30.000s, and [10.77.0.11 10.77.0.13] at 30.500s (version 405)", story: func() *story {
			return steadily().set(30.5, 405, without2...)
		}},
		{name: "flaps, overtaken by a sample", want: Fail, says: "endpoints through node-3 held", story: func() *story { return flapped(steadily(), 30, without2...) }},
		{name: "still to be listed", want: Pass, took: "57s", story: func() *story {
			return steadily().change(func(r *record.Run) {
				for i := range 2 * 2 * len(facts.Sources) {
					r.Endpoints[i].V.Addresses = without2
				}
			})
		}},
		{name: "never whole", want: Inconclusive, says: "never held all API servers", story: func() *story {
			return steadily().change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Addresses = without2
				}
			})
		}},
		{name: "by a fault", want: Inconclusive, took: "39s", says: "watched for only 39s", story: func() *story {
			return steadily().fault("kill", "kill", "node-2", "kube-apiserver", 40, 50).at(40.2).process("node-2", "kube-apiserver", 0).set(45, 555, without2...)
		}},
		{name: "beside a fault of others", want: Pass, took: "59s", story: func() *story {
			return steadily().fault("freeze", "freeze", "node-2", "kube-controller-manager", 10, 50)
		}},
		{name: "flaps beside a fault of others", want: Fail, says: "and [10.77.0.11 10.77.0.13] at 30.500s", story: func() *story {
			return steadily().fault("freeze", "freeze", "node-2", "kube-controller-manager", 10, 50).set(30.5, 405, without2...)
		}},
		{name: "an API server was started again", want: Inconclusive, says: "the API server on node-2 was not seen to run throughout", story: func() *story {
			return steadily().set(30.5, 405, without2...).at(30).process("node-2", "kube-apiserver", 99)
		}},
		{name: "flaps, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return steadily().set(30.5, 405, without2...).change(func(r *record.Run) { r.Harness[30].V.Late = 10 * time.Second })
		}},
		{name: "slices not read", want: Inconclusive, says: "no reading of the endpointslice", story: func() *story {
			return steadily().change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Source = "endpoints"
				}
			})
		}},
	})
}

func TestEndpointsNeverEmpty(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-EP-011", Judge: "endpoints-never-empty"}, []ruling{
		{name: "as it should be", story: steadily, want: Pass, took: "3 addresses", says: "held an address at every moment, at least 3"},
		{name: "one at least", want: Pass, took: "1 address", story: func() *story { return steadily().set(30.5, 405, "10.77.0.11") }},
		{name: "empty", want: Fail, says: "endpoints through node-1 was empty at 30.500s (version 405), after 3 were listed", story: func() *story { return steadily().set(30.5, 405) }},
		{name: "empty, harness starved", want: Fail, says: "was empty", story: func() *story {
			return steadily().set(30.5, 405).change(func(r *record.Run) { r.Harness[20].V.Late = 5 * time.Second })
		}},
		{name: "empty, overtaken by a sample", want: Fail, says: "endpoints through node-3 was empty", story: func() *story { return flapped(steadily(), 30) }},
		{name: "empty at first", want: Pass, story: func() *story { return steadily().set(0, 50) }},
		{name: "always empty", want: Inconclusive, says: "never held an address", story: func() *story {
			return newStory().set(1, 7).set(2, 8)
		}},
		{name: "nothing read", want: Inconclusive, says: "no reading of the endpoints and endpointslice", story: func() *story { return newStory() }},
		{name: "not read for a while", want: Inconclusive, says: "no state of the endpoints of default/kubernetes was read through balancer, node-1, node-2 and node-3 from 19.000s for more than 3s", story: func() *story {
			return steadily().change(forget(func(e record.Timed[record.Endpoints]) bool { return e.At > sec(19) && e.At < sec(30) }))
		}},
		{name: "not read for a while after a fault", want: Pass, story: func() *story {
			return steadily().fault("kill", "kill", "node-1", "kube-apiserver", 18, 40).
				change(forget(func(e record.Timed[record.Endpoints]) bool { return e.At > sec(19) && e.At < sec(30) }))
		}},
		{name: "slices read at first only", want: Inconclusive, says: "no state of the endpointslice", story: func() *story {
			return steadily().change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Source == "endpointslice" && e.At > sec(19) }))
		}},
	})
	down := func() *story {
		return steadily().fault("a", "kill", "node-1", "kube-apiserver", 10, 50).fault("b", "kill", "node-2", "kube-apiserver", 12, 52)
	}
	check := record.Check{Requirement: "HA-EP-010", Judge: "endpoints-never-empty", Params: map[string]string{"faults": "a,b"}}
	rule(t, check, []ruling{
		{name: "the survivor stays", want: Pass, says: "and every API server that was up stayed listed", story: func() *story {
			return down().change(func(r *record.Run) {
				for i := range r.Endpoints {
					if r.Endpoints[i].At > sec(30) {
						r.Endpoints[i].V.Addresses = []string{"10.77.0.13"}
					}
				}
			})
		}},
		{name: "the survivor leaves", want: Fail, says: "endpoints through node-1 did not list node-3 (10.77.0.13) at 30.500s", story: func() *story { return down().set(30.5, 405, "10.77.0.11") }},
		{name: "the survivor leaves, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return down().set(30.5, 405, "10.77.0.11").change(func(r *record.Run) { r.Harness[20].V.Late = 5 * time.Second })
		}},
		{name: "the survivor is never listed", want: Fail, took: "39s", says: "endpoints through node-3 did not list node-3 (10.77.0.13) for 39s from the first of the faults on, longer than 22s (2I + M, I = 10s, M = 2s)", story: func() *story {
			return down().change(unlisted(0, 60))
		}},
		{name: "the survivor is never listed, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return down().change(unlisted(0, 60)).change(func(r *record.Run) { r.Harness[20].V.Late = 20 * time.Second })
		}},
		{name: "the survivor is not listed for less than 2I + M", want: Inconclusive, says: "does not show that default/kubernetes listed node-3 (10.77.0.13) in endpoints through node-3 and node-3 (10.77.0.13) in endpointslice through node-3 when", story: func() *story {
			return steadily().fault("a", "kill", "node-1", "kube-apiserver", 10, 30).fault("b", "kill", "node-2", "kube-apiserver", 12, 52).change(unlisted(0, 60))
		}},
		{name: "the survivor is listed only after the faults began", want: Inconclusive, says: "does not show that default/kubernetes listed node-3", story: func() *story { return down().change(unlisted(0, 15)) }},
		{name: "the survivor is read as listed soon after the faults began", want: Pass, story: func() *story { return down().change(unlisted(0, 12)) }},
		{name: "the survivor is listed just before the faults", want: Pass, says: "and every API server that was up stayed listed", story: func() *story { return down().change(unlisted(0, 9)) }},
		{name: "the survivor leaves afterwards", want: Pass, story: func() *story { return down().set(55.5, 655, "10.77.0.11") }},
		{name: "not read meanwhile", want: Inconclusive, says: "through node-3 from 10.000s for more than 3s, so changes of the list may have gone unseen", story: func() *story {
			return down().change(forget(func(e record.Timed[record.Endpoints]) bool { return e.At > sec(10) && e.At < sec(50) }))
		}},
		{name: "nobody looked through the survivor", want: Inconclusive, says: "through node-3", story: func() *story {
			return down().change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At > sec(9) }))
		}},
		{name: "nobody looked at its end", want: Inconclusive, says: "from 49.000s", story: func() *story {
			return down().change(forget(func(e record.Timed[record.Endpoints]) bool { return e.At > sec(49) }))
		}},
		{name: "another fault hits the survivor", want: Inconclusive, says: "hit every API server", story: func() *story {
			return down().fault("c", "power-off", "node-3", "", 20, 30).set(25.5, 355, "10.77.0.11")
		}},
		{name: "none survives", want: Inconclusive, says: "hit every API server", story: func() *story {
			return down().change(func(r *record.Run) { r.Faults[0].V.Nodes = []string{"node-1", "node-3"} })
		}},
		{name: "the survivor is a substitute", want: Pass, says: "and every API server that was up stayed listed", story: func() *story { return substituted(down(), 5) }},
		{name: "the substitute leaves", want: Fail, says: "did not list node-4 (10.77.0.14) at 30.500s", story: func() *story { return substituted(down(), 5).set(30.5, 405, "10.77.0.11") }},
		{name: "the substitute came too late", want: Inconclusive, says: "hit every API server", story: func() *story { return substituted(down(), 15) }},
	})
}

// unlisted takes node-3 out of the lists from one time to another.
func unlisted(from, to float64) func(*record.Run) {
	return func(r *record.Run) {
		for i := range r.Endpoints {
			if e := &r.Endpoints[i]; e.At >= sec(from) && e.At < sec(to) {
				e.V.Addresses = slices.DeleteFunc(slices.Clone(e.V.Addresses), func(a string) bool { return a == "10.77.0.13" })
			}
		}
	}
}

// substituted has node-4 in place of node-3, all the while in the lists, and from a time on among
// the nodes.
func substituted(s *story, at float64) *story {
	s.changed("lost", record.NodeLost, "node-3", "10.77.0.13", 1, 1).changed("substitute", record.NodeAdded, "node-4", "10.77.0.14", 2, at)
	return s.change(func(r *record.Run) {
		for i := range r.Endpoints {
			e := &r.Endpoints[i].V
			if e.Via == "node-3" {
				e.Via = "node-4"
			}
			for j, a := range e.Addresses {
				if a == "10.77.0.13" {
					e.Addresses = append(append(slices.Clone(e.Addresses[:j]), "10.77.0.14"), e.Addresses[j+1:]...)
				}
			}
		}
	})
}

func TestEndpointsConverge(t *testing.T) {
	// gone makes node-2 leave at 20 s and come back at the given time.
	gone := func(back float64) *story {
		s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 30)
		for i := range 60 {
			if t := float64(i); t >= 20 && t < back {
				s.set(t, 100+10*i, without2...)
			} else {
				s.set(t, 100+10*i, allThree...)
			}
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-EP-012", Judge: "endpoints-converge", Fault: "kill", Bound: "I + M"}, []ruling{
		{name: "as it should be", story: func() *story { return gone(36) }, want: Pass, took: "5s", says: "again 5s after the kill of kube-apiserver on node-2 was healed, within 12s"},
		{name: "at once", story: func() *story { return gone(25) }, want: Pass, took: "0s", says: "again 0s after"},
		{name: "never gone", story: func() *story { return gone(0) }, want: Pass, took: "0s",
			says: "still held exactly the API servers [10.77.0.11 10.77.0.12 10.77.0.13] when the kill of kube-apiserver on node-2 was healed, and from then on"},
		{name: "judged by what was seen", story: func() *story { return gone(36) }, want: Pass,
			says: "by endpoints through node-1, endpoints through node-3, endpointslice through node-1 and endpointslice through node-3."},
		{name: "not read through one that is not hit", want: Inconclusive, says: "no state of the endpoints of default/kubernetes was read through node-3 later than 1s after", story: func() *story {
			return gone(25).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At > sec(30) }))
		}},
		{name: "read through one that is not hit only later", want: Pass, took: "0s", story: func() *story {
			return gone(0).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At < sec(45) }))
		}},
		{name: "read through one that is not hit only later, and a new leader", want: Pass, took: "0s", story: func() *story {
			return newLeaders(gone(0), 33).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.V.Via == "node-3" && e.At < sec(45) }))
		}},
		{name: "not seen to stay", want: Inconclusive, says: "no state of the endpoints", story: func() *story {
			return gone(25).change(forget(func(e record.Timed[record.Endpoints]) bool { return e.At > sec(31.5) }))
		}},
		{name: "too late", story: func() *story { return gone(50) }, want: Fail, took: "19s", says: "endpoints through node-1 did after 19s"},
		{name: "never", story: func() *story { return gone(99) }, want: Fail, took: "28s", says: "still held [10.77.0.11 10.77.0.13] after 28s"},
		{name: "leaves again", want: Fail, took: "26s", story: func() *story {
			return gone(36).change(func(r *record.Run) {
				for i := range r.Endpoints {
					if r.Endpoints[i].At == sec(56) {
						r.Endpoints[i].V.Addresses = without2
					}
				}
			})
		}},
		{name: "a stale address stays", want: Fail, says: "still held [10.77.0.11 10.77.0.12 10.77.0.13 10.77.0.99]", story: func() *story {
			return gone(36).change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Addresses = append(r.Endpoints[i].V.Addresses[:len(r.Endpoints[i].V.Addresses):len(r.Endpoints[i].V.Addresses)], "10.77.0.99")
				}
			})
		}},
		{name: "leaves by another fault", want: Pass, took: "5s", story: func() *story {
			return gone(36).fault("again", "kill", "node-2", "kube-apiserver", 50, 58).set(55.5, 655, without2...)
		}},
		{name: "another one is kept down", want: Pass, took: "4s", says: "exactly the API servers [10.77.0.11 10.77.0.12]", story: func() *story {
			return gone(0).fault("other", "kill", "node-3", "kube-apiserver", 9, 50).change(func(r *record.Run) {
				for i, e := range r.Endpoints {
					if e.At >= sec(35) && e.At < sec(52) {
						r.Endpoints[i].V.Addresses = []string{"10.77.0.11", "10.77.0.12"}
					}
				}
			})
		}},
		{name: "the address of one that is kept down stays", want: Fail, took: "19s", says: "still held [10.77.0.11 10.77.0.12 10.77.0.13] after 19s", story: func() *story {
			return gone(0).fault("other", "kill", "node-3", "kube-apiserver", 9, 50)
		}},
		{name: "an API server's fault could not be healed", want: Pass, says: "(and perhaps 10.77.0.13)", story: func() *story {
			return gone(36).fault("other", "kill", "node-3", "kube-apiserver", 9, 50).change(func(r *record.Run) {
				r.Faults[3].V.Phase = record.FaultFailed
				for i, e := range r.Endpoints {
					if e.At >= sec(45) {
						r.Endpoints[i].V.Addresses = []string{"10.77.0.11", "10.77.0.12"}
					}
				}
			})
		}},
		{name: "another component is kept down", want: Pass, took: "5s", says: "[10.77.0.11 10.77.0.12] (and perhaps 10.77.0.13)", story: func() *story {
			return gone(36).fault("other", "kill", "node-3", "kube-controller-manager", 9, 50)
		}},
		{name: "its API server is not listed", want: Pass, took: "5s", story: func() *story {
			return gone(36).fault("other", "kill", "node-3", "etcd", 9, 50).change(func(r *record.Run) {
				for i := range r.Endpoints {
					r.Endpoints[i].V.Addresses = slices.DeleteFunc(slices.Clone(r.Endpoints[i].V.Addresses), func(a string) bool { return a == "10.77.0.13" })
				}
			})
		}},
		{name: "not back while another component is kept down", want: Fail, took: "19s", story: func() *story {
			return gone(99).fault("other", "kill", "node-3", "kube-controller-manager", 9, 50)
		}},
		{name: "watched too short", want: Inconclusive, says: "less than 12s", story: func() *story {
			return gone(99).change(func(r *record.Run) { r.EndAt = sec(40) })
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return gone(50).change(func(r *record.Run) { r.Harness[45].V.Late = 5 * time.Second })
		}},
		{name: "nothing read afterwards", want: Inconclusive, says: "no state of the endpoints", story: func() *story {
			return gone(36).change(func(r *record.Run) { r.Endpoints = r.Endpoints[:40] })
		}},
	})
}
