package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// watching adds a step in the life of a client's watch, which its server's
// certificate names by an address.
func (s *story) watching(client, id string, phase record.WatchPhase, t float64, entrance, address, problem string) *story {
	w := record.Watch{ID: id, Phase: phase, Client: client, Entrance: entrance, API: facts.APIKubernetes, Collection: "things",
		Called: sec(t) - 1000, Seen: sec(t), Error: problem}
	if phase == record.WatchOpened {
		w.Server = []string{address, "10.96.0.1", "127.0.0.1"}
	}
	s.at(t)
	return add(s, &s.run.Watches, w)
}

// shared opens a watch through the balancer, of an API server whose certificate has the addresses of
// all of them.
func (s *story) shared(client, id string) *story {
	s.watching(client, id, record.WatchOpened, 6, "balancer", "10.77.0.11", "")
	w := &s.run.Watches[len(s.run.Watches)-1].V
	w.Server = append(w.Server, "10.77.0.12", "10.77.0.13")
	return s
}

// watchesBreak has three clients watch through the API server that is killed at 10 s
// and back at 40 s, one of them through the balancer. They have other watches after
// some time, and that many are opened through the balancer at the end. Clients of the balancer were
// on the other API servers before.
func watchesBreak(after float64, atTheEnd int, address string) *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 39).client("client-go-1", "node-1", true, 1, 3).client("client-go-2", "node-3", true, 1, 3)
	for i, entrance := range []string{"node-2", "node-2", "balancer"} {
		client, first, second := fmt.Sprint("c", i), fmt.Sprint("w", i), fmt.Sprint("v", i)
		s.watching(client, first, record.WatchOpened, 5, entrance, "10.77.0.12", "")
		s.watching(client, first, record.WatchEnded, 10.1, entrance, "", "unexpected EOF")
		s.watching(client, second, record.WatchOpened, 10+after, "node-1", "10.77.0.11", "")
	}
	for i := range atTheEnd {
		s.watching("c9", fmt.Sprint("b", i), record.WatchOpened, 45+float64(i)/10, "balancer", address, "")
	}
	return s
}

func TestWatchesReturn(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-WCH-006", Level: "SHOULD", Judge: "watches-return", Fault: "kill", Bound: "H + M"}, []ruling{
		{name: "as it should be", story: func() *story { return watchesBreak(1, 3, "10.77.0.12") }, want: Pass, took: "1s",
			says: "Of 3 clients whose watches broke with the kill of kube-apiserver on node-2, each had another one 1s after it at most, within 4s"},
		{name: "too late", story: func() *story { return watchesBreak(6, 3, "10.77.0.12") }, want: Fail, took: "6s", says: "c0 had another one only after 6s"},
		{name: "one stays open, and shows nothing", want: Fail, took: "29s", says: "that of c5, watch w5 through balancer, stayed open for 29s, though the API server that served it was gone", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c5", "w5", record.WatchOpened, 6, "balancer", "10.77.0.12", "")
		}},
		{name: "one ends late, on time", want: Fail, took: "6s", says: "stayed open for 6s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c5", "w5", record.WatchOpened, 6, "balancer", "10.77.0.12", "").watching("c5", "w5", record.WatchEnded, 16, "balancer", "", "").
				watching("c5", "v5", record.WatchOpened, 16.1, "node-1", "10.77.0.11", "")
		}},
		{name: "one breaks within the bound", want: Pass, took: "3.1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c5", "w5", record.WatchOpened, 6, "balancer", "10.77.0.12", "").watching("c5", "w5", record.WatchEnded, 13, "balancer", "", "unexpected EOF").
				watching("c5", "v5", record.WatchOpened, 13.1, "node-1", "10.77.0.11", "")
		}},
		{name: "one had ended before", want: Pass, took: "1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c5", "w5", record.WatchOpened, 6, "balancer", "10.77.0.12", "").watching("c5", "w5", record.WatchEnded, 8, "balancer", "", "")
		}},
		{name: "one stays open through an API server that has only lost its links", want: Pass, took: "1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c5", "w5", record.WatchOpened, 6, "balancer", "10.77.0.12", "").change(func(r *record.Run) {
				for i := range r.Faults {
					r.Faults[i].V.Effects = effects["isolate"]
				}
			})
		}},
		{name: "one stays open, through an unknown API server", want: Pass, took: "1s", story: func() *story { return watchesBreak(1, 3, "10.77.0.12").shared("c5", "w5") }},
		{name: "never", want: Fail, took: "29s", says: "c1 had none for 29s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").change(func(r *record.Run) {
				for i := range r.Watches {
					if r.Watches[i].V.ID == "v1" {
						r.Watches[i].V.Phase = record.WatchRefused
					}
				}
			})
		}},
		{name: "accepted, and mute", want: Fail, took: "29s", says: "c1 had none for 29s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").write(create, "node-1", "k", "v", 7, 12, 13)
			s.last().Collection = "things"
			for _, id := range []string{"v0", "v2"} {
				add(s, &s.run.Events, record.Event{Watch: id, Type: record.EventAdded, Key: "k", Value: "v", Revision: "7", Seen: sec(13)})
			}
			return s
		}},
		{name: "accepted, and broken each time", want: Fail, took: "29s", says: "c0 had none for 29s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "unexpected EOF")
			return s.watching("c0", "u0", record.WatchOpened, 12, "node-1", "10.77.0.11", "").watching("c0", "u0", record.WatchEnded, 12.1, "node-1", "", "unexpected EOF")
		}},
		{name: "accepted, and broken once", want: Pass, took: "2s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "unexpected EOF")
			return s.watching("c0", "u0", record.WatchOpened, 12, "node-1", "10.77.0.11", "")
		}},
		{name: "accepted, and ended by the server each time", want: Fail, took: "29s", says: "c0 had none for 29s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "")
			return s.watching("c0", "u0", record.WatchOpened, 12, "node-1", "10.77.0.11", "").watching("c0", "u0", record.WatchEnded, 12.1, "node-1", "", "")
		}},
		{name: "accepted, and ended by the server once", want: Pass, took: "2s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "")
			return s.watching("c0", "u0", record.WatchOpened, 12, "node-1", "10.77.0.11", "")
		}},
		{name: "accepted, and ended by the server on time", want: Pass, took: "1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 12, "node-1", "", "")
		}},
		{name: "accepted, and ended by the client", want: Pass, took: "1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "closed by the client")
		}},
		{name: "accepted, and ended by the server after an event", want: Pass, took: "1s", story: func() *story {
			s := watchesBreak(1, 3, "10.77.0.12").watching("c0", "v0", record.WatchEnded, 11.1, "node-1", "", "")
			return add(s, &s.run.Events, record.Event{Watch: "v0", Type: record.EventBookmark, Revision: "7", Seen: sec(11)})
		}},
		{name: "accepted, and nothing to show", want: Pass, story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").write(create, "node-1", "k", "v", 7, 57, 58)
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watchesBreak(6, 3, "10.77.0.12").change(func(r *record.Run) { r.Harness[12].V.Late = 5 * time.Second })
		}},
		{name: "none broke", want: Inconclusive, says: "no watch through the API server on node-2 broke", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").change(func(r *record.Run) {
				for i := range r.Watches {
					if r.Watches[i].V.Phase == record.WatchEnded {
						r.Watches[i].V.Error = "closed by the client"
					}
				}
			})
		}},
		{name: "not spread again", story: func() *story { return watchesBreak(1, 30, "10.77.0.11") }, want: Fail, took: "0 of 30 watches", says: "0 of 30 that were opened"},
		{name: "not spread again, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").change(func(r *record.Run) { r.Harness[44].V.Late = time.Second })
		}},
		{name: "another node has the virtual IP", want: NotApplicable, says: "The API server on node-2 is on standby after its return", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").at(42).standby("node-2", 10)
		}},
		{name: "another node has the virtual IP, and too late", want: Fail, says: "c0 had another one only after 6s", story: func() *story {
			return watchesBreak(6, 30, "10.77.0.11").at(42).standby("node-2", 10)
		}},
		{name: "on standby before the fault alone", want: Fail, says: "0 of 30 that were opened", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").at(5).standby("node-2", 1)
		}},
		{name: "all clients were on one API server, by their address perhaps", want: Inconclusive, says: "so it may choose by their address", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").change(func(r *record.Run) {
				for i := range r.ClientProbes {
					r.ClientProbes[i].V.Server = "node-2"
				}
			})
		}},
		{name: "all clients were on one API server until the fault", want: Inconclusive, says: "so it may choose by their address", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").change(func(r *record.Run) { r.ClientProbes = nil }).client("client-go-1", "node-1", true, 20, 22)
		}},
		{name: "watches were on several API servers", want: Fail, says: "0 of 30 that were opened", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").change(func(r *record.Run) { r.ClientProbes = nil }).watching("c8", "y", record.WatchOpened, 6, "balancer", "10.77.0.11", "")
		}},
		{name: "one certificate for all, and broken for another reason", want: Pass, took: "1s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").shared("c8", "y").watching("c8", "y", record.WatchEnded, 30, "balancer", "", "unexpected EOF")
		}},
		{name: "the watch of another node that joined", want: Pass, says: "4 of 12 watches", story: func() *story {
			s := watchesBreak(1, 8, "10.77.0.11")
			for i := range 4 {
				s.watching("c9", fmt.Sprint("x", i), record.WatchOpened, 52, "balancer", "10.77.0.12", "")
			}
			s.changed("node-4", record.NodeAdded, "node-4", "10.77.0.14", 2, 3)
			for i := range 60 {
				s.watching("c9", fmt.Sprint("z", i), record.WatchOpened, 53, "node-4", "10.77.0.14", "")
			}
			return s
		}},
		{name: "one of many", story: func() *story {
			return watchesBreak(1, 59, "10.77.0.11").watching("c9", "x", record.WatchOpened, 52, "balancer", "10.77.0.12", "")
		}, want: Fail, took: "1 of 60 watches", says: "1 of 60 that were opened through the balancer more than 4s"},
		{name: "one of 30", story: func() *story {
			return watchesBreak(1, 29, "10.77.0.11").watching("c9", "x", record.WatchOpened, 52, "balancer", "10.77.0.12", "")
		}, want: Inconclusive, says: "1 of 30 watches"},
		{name: "a fair share by chance", story: func() *story {
			s := watchesBreak(1, 26, "10.77.0.11")
			for i := range 4 {
				s.watching("c9", fmt.Sprint("x", i), record.WatchOpened, 52, "balancer", "10.77.0.12", "")
			}
			return s
		}, want: Pass, says: "4 of 30 watches"},
		{name: "those that came early do not make a share", story: func() *story {
			s := watchesBreak(1, 60, "10.77.0.11")
			for i := range 20 {
				s.watching("c9", fmt.Sprint("x", i), record.WatchOpened, 41, "balancer", "10.77.0.12", "")
			}
			return s
		}, want: Fail, says: "0 of 60"},
		{name: "too few to tell", story: func() *story { return watchesBreak(1, 27, "10.77.0.11") }, want: Inconclusive, says: "too few for a verdict"},
		{name: "the balancer speaks for itself", story: func() *story { return watchesBreak(1, 30, "10.77.0.99") }, want: Inconclusive, says: "is not known"},
		{name: "none through the balancer", story: func() *story { return watchesBreak(1, 0, "") }, want: Inconclusive, says: "0 of 0 watches"},
	})
}
