package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// revised has the members report a revision that grows by 10 a second, from 100, and each API server
// write twice, as the version that a function returns for its node and the time.
func revised(version func(node string, at float64) int) func() *story {
	return func() *story {
		s := member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) { e.Revision = 100 + 10*int64(at)/int64(sec(1)) }))
		for _, n := range threeNodes {
			for _, at := range []float64{5.5, 6.5} {
				if v := version(n, at); v > 0 {
					s.write(record.OpCreate, n, fmt.Sprintf("y-%s-%g", n, at), "v", v, at, at+.1)
				}
			}
		}
		return s
	}
}

// reelected has some members follow m2, from a time on.
func reelected(from float64, term uint64, nodes ...string) func() *story {
	return func() *story {
		return member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) {
			if at >= sec(from) && slices.Contains(nodes, e.Node) {
				e.Leader, e.Term = "m2", term
			}
		}))
	}
}

func TestEtcdMembership(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-TOP-001", Judge: "etcd-membership"}, []ruling{
		{name: "as it should be", story: member, want: Pass, took: "3 members, 6 of 6 pairs"},
		{name: "alarm", want: Fail, says: "must have no alarm: the member on node-2 reported NOSPACE at 7.000s", story: func() *story {
			return member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) {
				if at == sec(7) && e.Node == "node-2" {
					e.Alarms = []string{"NOSPACE"}
				}
			}))
		}},
		{name: "two clusters", want: Fail, says: "c1 on node-1 and c2 on node-3", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) {
				if e.Node == "node-3" {
					e.Cluster = "c2"
				}
			}))
		}},
		{name: "two leaders", want: Fail, says: "must follow one leader", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) {
				if e.Node == "node-3" {
					e.Leader, e.Term = "m3", 3
				}
			}))
		}},
		{name: "an election that all have seen", want: Pass, story: reelected(12, 3, threeNodes...)},
		{name: "an election that one has seen in the end", want: Pass, story: reelected(19, 3, "node-2")},
		{name: "an election that one has not seen in the end", want: Pass, story: reelected(19, 3, "node-1", "node-2")},
		{name: "an election that one has seen in the end, and applied nothing since", want: Pass, story: reelected(19, 2, "node-2")},
		{name: "the other members were asked before an election", want: Pass, story: func() *story {
			return reelected(18, 3, "node-2")().change(func(r *record.Run) {
				r.Etcd = slices.DeleteFunc(r.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.At >= sec(18) && e.V.Node != "node-2" })
			})
		}},
		{name: "one does not see an election", want: Fail, says: "the one on node-1 follows m1 in term 2, the one on node-2 follows m2 in term 3", story: reelected(16, 3, "node-2", "node-3")},
		{name: "one alone sees an election", want: Fail, says: "the one on node-1 follows m1 in term 2, the one on node-2 follows m2 in term 3", story: reelected(18, 3, "node-2")},
		{name: "unhealthy twice", want: Fail, says: "the one on node-3 was not, twice in a row (deadline exceeded)", story: func() *story {
			return member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) {
				if e.Node == "node-3" && at >= sec(18) {
					e.OK, e.Error = false, "deadline exceeded"
				}
			}))
		}},
		{name: "unhealthy twice, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) {
				e.OK = e.Node != "node-3" || at < sec(18)
			})).change(func(r *record.Run) { r.Harness[18].V.Late = time.Second })
		}},
		{name: "one answer missing", want: Pass, story: func() *story {
			return member().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) { e.OK = e.Node != "node-3" || at != sec(19) }))
		}},
		{name: "a learner does not vote", want: Fail, says: "odd number of voting members, 3 or more: it has 2", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) {
				e.Learner = e.Node == "node-3"
				e.Members = []string{"m1", "m2"}
			}))
		}},
		{name: "a dead member is still listed", want: Fail, says: "lists 4 voting members (m1, m2, m3 and m9), but 3 answer", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Members = append(e.Members, "m9") }))
		}},
		{name: "leader from elsewhere", want: Fail, says: "must be one of its voting members: it is m7", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Leader = "m7" }))
		}},
		{name: "members never asked", want: Inconclusive, says: "asked for the list", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Members = nil }))
		}},
		{name: "a node without status", want: Inconclusive, says: "no status of the etcd member on node-2", story: func() *story {
			return member().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) {
				if e.Node == "node-2" {
					e.Node = "node-9"
				}
			}))
		}},
		{name: "old value read", want: Fail, says: `x-node-3 was put to "from-node-3" through node-3, and the next linearizable read through node-2 returned "old"`, story: func() *story {
			s := member()
			s.last().Value = "old"
			return s
		}},
		{name: "a pair missing", want: Inconclusive, says: "1 of 6 ordered pairs of etcd members have no put that was read: node-3 to node-2 (get", took: "5 of 6 pairs", story: func() *story {
			return member().outcome(record.Unknown)
		}},
		{name: "a serializable read does not count", want: Inconclusive, says: "node-3 to node-2", story: func() *story {
			s := member()
			s.last().Consistency = "serializable"
			return s
		}},
		{name: "API servers write to these members", want: Pass, took: "3 members, 6 of 6 pairs", story: revised(func(_ string, at float64) int { return 100 + int(10*at) })},
		{name: "an API server writes to a younger cluster", want: Fail, took: "2 of 3 API servers",
			says: "those on node-1 and node-2 write to the members on node-1, node-2 and node-3, and those on node-3 do not: create of y-node-3-5.5 through node-3 by c-node-3 to \"v\", 5.500s to 5.600s, has version 7, although the member on node-3 had reported revision 150 before that",
			story: revised(func(node string, at float64) int {
				if node == "node-3" {
					return 2 + int(at)
				}
				return 100 + int(10*at)
			})},
		{name: "an API server writes to an older cluster", want: Fail, says: "has version 9005, although no member reported more than revision 210 until 5s after that",
			story: revised(func(node string, at float64) int {
				if node == "node-1" {
					return 9000 + int(at)
				}
				return 100 + int(10*at)
			})},
		{name: "all API servers write to another cluster", want: Inconclusive, says: "the API servers on node-1, node-2 and node-3 write to other etcd members than those on node-1, node-2 and node-3",
			story: revised(func(_ string, at float64) int { return 9000 + int(at) })},
		{name: "one write that does not fit", want: Pass, story: revised(func(node string, at float64) int {
			if node == "node-2" && at > 6 {
				return 3
			}
			return 100 + int(10*at)
		})},
		{name: "a single write, which does not fit", want: Pass, story: revised(func(node string, at float64) int {
			if node == "node-2" && at > 6 {
				return 3
			} else if node == "node-2" {
				return 0
			}
			return 100 + int(10*at)
		})},
		{name: "members that apply late", want: Pass, story: func() *story {
			return revised(func(_ string, at float64) int { return 100 + int(10*at) })().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) {
				if e.Node != "node-1" {
					e.Revision -= 60
				}
			}))
		}},
		{name: "writes just before the record ends", want: Pass, story: func() *story {
			s := revised(func(string, float64) int { return 0 })()
			for _, at := range []float64{18.5, 19.5} {
				s.write(record.OpCreate, "node-1", fmt.Sprintf("late-%g", at), "v", 100+int(10*at), at, at+.1)
			}
			return s
		}},
		{name: "unhealthy under a fault is another matter", want: Pass, story: func() *story {
			s := member().fault("kill", "kill", "node-2", "etcd", 40, 50)
			for i := range 9 {
				s.at(41+float64(i)).etcd("node-2", "", 2)
			}
			return s
		}},
	})
}
