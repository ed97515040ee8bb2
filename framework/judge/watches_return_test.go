package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// watching adds a step in the life of a client's watch, which its server's
// certificate names by an address.
func (s *story) watching(client, id string, phase record.WatchPhase, t float64, entrance, address, problem string) *story {
	w := record.Watch{ID: id, Phase: phase, Client: client, Entrance: entrance, API: apiKubernetes, Collection: "things",
		Called: sec(t) - 1000, Seen: sec(t), Error: problem}
	if phase == record.WatchOpened {
		w.Server = []string{address, "10.96.0.1", "127.0.0.1"}
	}
	s.at(t)
	return add(s, &s.run.Watches, w)
}

// watchesBreak has three clients watch through the API server that is killed at 10 s
// and back at 40 s, one of them through the balancer. They have other watches after
// some time, and so many are opened through the balancer at the end.
func watchesBreak(after float64, atTheEnd int, address string) *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 39)
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
		{name: "never", want: Fail, took: "29s", says: "c1 had none for 29s", story: func() *story {
			return watchesBreak(1, 3, "10.77.0.12").change(func(r *record.Run) {
				for i := range r.Watches {
					if r.Watches[i].V.ID == "v1" {
						r.Watches[i].V.Phase = record.WatchRefused
					}
				}
			})
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
		{name: "not spread again", story: func() *story { return watchesBreak(1, 30, "10.77.0.11") }, want: Fail, took: "0 of 30 watches", says: "none of 30"},
		{name: "not spread again, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return watchesBreak(1, 30, "10.77.0.11").change(func(r *record.Run) { r.Harness[44].V.Late = time.Second })
		}},
		{name: "too few to tell", story: func() *story { return watchesBreak(1, 29, "10.77.0.11") }, want: Inconclusive, says: "which is too few to tell"},
		{name: "the balancer speaks for itself", story: func() *story { return watchesBreak(1, 30, "10.77.0.99") }, want: Inconclusive, says: "is not known"},
		{name: "none through the balancer", story: func() *story { return watchesBreak(1, 0, "") }, want: Inconclusive, says: "0 of 0 watches"},
	})
}
