package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// handedOver are writes through a node that its etcd member had handed to a leader which is
// lost at 10 s: they end after that many seconds, with an error of the API server.
func (s *story) handedOver(entrance string, n int, took float64) *story {
	for i := range n {
		s.write(record.OpUpdate, entrance, fmt.Sprintf("h%d", i), fmt.Sprintf("h-%s-%d", entrance, i), 0, 9.9, 9.9+took).outcome(record.Unknown)
		s.last().RetryAfter, s.last().Error = -1, "status 500: etcdserver: request timed out"
	}
	return s
}

func TestRequestsAnswered(t *testing.T) {
	killed := func() *story {
		return leaders(newStory()).fault("kill", "kill", "node-2", "etcd", 10, 20).
			traffic("node-1", 11.5, 40).traffic("node-3", 11.5, 40)
	}
	asItShouldBe := func() *story { return killed().handedOver("node-1", 3, 7.1).handedOver("node-3", 4, 1.5) }
	rule(t, record.Check{Requirement: "HA-QR-019", Level: "SHOULD", Judge: "requests-answered", Fault: "kill", Bound: "5s + 2E + M"}, []ruling{
		{name: "as it should be", want: Pass, took: "7.1s", story: asItShouldBe,
			says: "Of 9 requests in flight through node-1 and node-3 at the kill of etcd on node-2, all were answered within 9s (5s + 2E + M, E = 1s, M = 2s); 3 hung (waited longer than 2E + M = 4s for a new leader), the longest took 7.1s"},
		{name: "none hung", want: Pass, says: "none hung", took: "1.5s", story: func() *story { return killed().handedOver("node-3", 6, 1.5) }},
		{name: "one hung for too long", want: Fail, took: "12s", says: "the update of h0 through node-1 took 12s (9.900s to 21.900s)", story: func() *story {
			return asItShouldBe().handedOver("node-1", 1, 12)
		}},
		{name: "answered in the end", want: Fail, took: "12s", story: func() *story {
			s := asItShouldBe().handedOver("node-1", 1, 12)
			s.last().Outcome, s.last().RetryAfter = record.OK, 0
			return s
		}},
		{name: "the client gave up after the bound", want: Fail, took: "15s", story: func() *story {
			s := asItShouldBe().handedOver("node-1", 1, 15)
			s.last().RetryAfter = 0
			return s
		}},
		{name: "the client gave up before", want: Inconclusive, says: "ended without an answer after 5s", story: func() *story {
			s := asItShouldBe().handedOver("node-1", 1, 5)
			s.last().RetryAfter = 0
			return s
		}},
		{name: "a read hung for too long", want: Fail, says: "the get of k through node-3", story: func() *story {
			return asItShouldBe().read("node-3", "k", "v", 120, 10.2, 20.2)
		}},
		{name: "through the node that was hit", want: Pass, story: func() *story { return asItShouldBe().handedOver("node-2", 5, 15) }},
		{name: "answered before", want: Pass, took: "7.1s", story: func() *story { return asItShouldBe().read("node-1", "k", "", 0, 0.1, 9.8) }},
		{name: "called when there was a leader again", want: Pass, took: "7.1s", story: func() *story { return asItShouldBe().read("node-1", "k", "", 0, 12, 22) }},
		{name: "another fault hit meanwhile", want: Inconclusive, says: "or another fault hit meanwhile", story: func() *story {
			return asItShouldBe().handedOver("node-1", 1, 12).fault("other", "kill", "node-3", "etcd", 18, 19)
		}},
		{name: "nothing was in flight", want: Inconclusive, says: "2 requests in flight through node-1 and node-3", story: killed},
		{name: "a starved harness", want: Inconclusive, says: "starved", story: func() *story {
			return asItShouldBe().handedOver("node-1", 1, 10).change(func(r *record.Run) { r.Harness[15].V.Late = 5 * time.Second })
		}},
		{name: "all nodes hit", want: Inconclusive, says: "no API server on a surviving node", story: func() *story {
			return asItShouldBe().fault("a", "kill", "node-1", "etcd", 10, 20).fault("b", "kill", "node-3", "etcd", 10, 20)
		}},
	})
}
