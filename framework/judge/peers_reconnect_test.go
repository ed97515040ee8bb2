package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// followedFrom has the last part be timed from one time on, and first checked at another.
func followedFrom(since, first float64) func(*record.Run) {
	return func(r *record.Run) {
		s := &r.Steadies[len(r.Steadies)-1].V
		s.Since, s.First = sec(since), sec(first)
	}
}

func TestPeersReconnect(t *testing.T) {
	// The network is split from 10 s to 20 s, from which TCP recovers by 34 s at the latest.
	split := func() *story { return newStory().fault("split", "split", "node-1", "", 10, 20) }
	back := func(took time.Duration) *story {
		return split().at(20+took.Seconds()+0.2).part(record.PartConnections, took)
	}
	rule(t, record.Check{Requirement: "HA-QR-018", Judge: "peers-reconnect", Fault: "split", Bound: "2E + M"}, []ruling{
		{name: "as it should be", want: Pass, took: "9s", says: "9s after the healing of the split of node-1, which had lasted 10s, within 14s", story: func() *story { return back(9 * time.Second) }},
		{name: "too late", want: Fail, took: "20s", says: "within 14s (2E + M + outage, E = 1s, M = 2s, outage = 10s) of the healing of the split of node-1: it took 20s", story: func() *story { return back(20 * time.Second) }},
		{name: "never", want: Fail, says: "after 1m0s these were not: node-2 to node-3", story: func() *story {
			return split().at(59).part(record.PartConnections, time.Minute, "node-2 to node-3")
		}},
		{name: "late, and in time after another fault", want: Fail, took: "20s", story: func() *story {
			return back(20*time.Second).fault("second", "kill", "node-2", "etcd", 41, 45).at(47).part(record.PartConnections, time.Second)
		}},
		{name: "late after another fault", want: Pass, took: "9s", story: func() *story {
			return back(9*time.Second).fault("second", "kill", "node-2", "etcd", 31, 35).at(56).part(record.PartConnections, 20*time.Second)
		}},
		{name: "only looked at after another fault", want: Inconclusive, says: "does not say", story: func() *story {
			return split().fault("second", "kill", "node-2", "etcd", 31, 35).at(37).part(record.PartConnections, time.Second)
		}},
		{name: "looked at before the fault", want: Inconclusive, says: "does not say", story: func() *story { return split().at(5).part(record.PartConnections, 0) }},
		{name: "another part in time", want: Inconclusive, says: "does not say", story: func() *story { return split().at(22).part(record.PartListed, time.Second) }},
		{name: "looked at for too short", want: Inconclusive, says: "for only 5s after the healing", story: func() *story {
			return split().at(25).part(record.PartConnections, 5*time.Second, "node-2 to node-3")
		}},
		{name: "back when the healing was proven late", want: Inconclusive, says: "how long before that they were back is not known", story: func() *story {
			return back(20 * time.Second).change(func(r *record.Run) { r.Faults[1].V.Effect = sec(39.8) })
		}},
		{name: "late, counted from a later healing", want: Fail, took: "20s", says: "it took 20s", story: func() *story {
			return split().at(42).part(record.PartConnections, 4*time.Second).change(followedFrom(36, 36.1))
		}},
		{name: "in time, counted from a later healing", want: Pass, took: "12s", story: func() *story {
			return split().at(34).part(record.PartConnections, 4*time.Second).change(followedFrom(28, 28.1))
		}},
		{name: "back when they were first checked, after a later healing", want: Inconclusive, says: "were back when they were first checked, 20s after the call to heal the split", story: func() *story {
			return split().at(42).part(record.PartConnections, 4*time.Second).change(followedFrom(36, 40))
		}},
		{name: "late on a starved machine", want: Inconclusive, says: "starved", story: func() *story {
			return back(20 * time.Second).change(func(r *record.Run) { r.Harness[25].V.Late = 5 * time.Second })
		}},
		{name: "healing without proof", want: Inconclusive, says: "had no proof", story: func() *story {
			return back(9 * time.Second).change(func(r *record.Run) { r.Faults[1].V.Proven = false })
		}},
	})
	// However long the network was cut, a minute is enough.
	rule(t, record.Check{Requirement: "HA-QR-018", Judge: "peers-reconnect", Fault: "split", Bound: "52s"}, []ruling{
		{name: "a minute at most", want: Fail, says: "within 1m0s (60s at most", story: func() *story {
			return split().at(59).part(record.PartConnections, 61*time.Second)
		}},
	})
}
