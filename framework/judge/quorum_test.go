package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// everywhere is traffic through every entrance, from from to to.
func everywhere(s *story, from, to float64) *story {
	for _, e := range []string{"balancer", "node-1", "node-2", "node-3"} {
		s.traffic(e, from, to)
	}
	return s
}

func TestHandover(t *testing.T) {
	// Leadership moves at 10 s, which takes half a second.
	moved := func() *story {
		return everywhere(everywhere(newStory().fault("move", "move-leader", "node-1", "etcd", 10, 14), 1, 9.99), 10.5, 20)
	}
	// An attempt of a client of its own, as the server that failed left it.
	tries := func(s *story, errors ...string) *story {
		for i, e := range errors {
			at := 10.1 + 0.1*float64(i)
			s.write(record.OpUpdate, "node-2", "own", fmt.Sprint("own-", i), 0, at, at+0.05).last().Client = "own"
			if e != "" {
				s.outcome(record.Unknown).last().Error = e
				if e[:8] == "status 4" {
					s.last().Outcome = record.Refused
				}
			}
		}
		return s
	}
	const timeout, conflict = "status 500 (InternalError): etcdserver: leader changed", "status 409 (Conflict): the object has been modified"
	rule(t, record.Check{Requirement: "HA-QR-010", Judge: "handover", Fault: "move", Bound: "E"}, []ruling{
		{name: "as it should be", story: moved, want: Pass, took: "510ms", says: "and none of them twice"},
		{name: "one failed and was retried", want: Pass, says: "failed, and none of them twice", story: func() *story { return tries(moved(), timeout, "") }},
		{name: "the retry lost a race", want: Pass, story: func() *story { return tries(moved(), timeout, conflict) }},
		{name: "the retry failed", want: Fail, says: "A write that fails while leadership is handed over must succeed when it is retried", story: func() *story { return tries(moved(), timeout, timeout) }},
		{name: "the retry failed under the next fault", want: Pass, story: func() *story {
			return tries(moved(), timeout, timeout).fault("mute", "cut", "node-2", "etcd", 10.22, 16)
		}},
		{name: "the retry failed before the next fault", want: Fail, says: "and so did its retry", story: func() *story {
			return tries(moved(), timeout, timeout).fault("mute", "cut", "node-2", "etcd", 10.3, 16)
		}},
		{name: "the retry of a burst failed", want: Pass, says: "failed, and none of them twice", story: func() *story {
			return tries(moved(), timeout, timeout).change(func(r *record.Run) {
				for i := range r.Ops {
					if r.Ops[i].V.Client == "own" {
						r.Ops[i].V.Purpose = facts.PurposeBurst
					}
				}
			})
		}},
		{name: "two conflicts", want: Pass, story: func() *story { return tries(moved(), conflict, conflict) }},
		{name: "two failed probes side by side", want: Pass, story: func() *story {
			return moved().probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(10.1), End: sec(10.4)}).
				probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(10.2), End: sec(10.4)})
		}},
		{name: "a failed probe, and the next one", want: Fail, says: "write probe through node-2 at 10.100s failed, and so did its retry", story: func() *story {
			return moved().probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(10.1), End: sec(10.2)}).
				probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(10.3), End: sec(10.4)})
		}},
		{name: "too long a gap", want: Fail, took: "1.71s", says: "must resume within 1s (E, E = 1s)", story: func() *story {
			s := newStory().fault("move", "move-leader", "node-1", "etcd", 10, 14)
			return everywhere(s, 1, 9.99).failing("node-2", 10.1, 10.2).traffic("balancer", 10.5, 20).traffic("node-1", 10.5, 20).traffic("node-2", 11.7, 20).traffic("node-3", 10.5, 20)
		}},
		{name: "nobody wrote", want: Inconclusive, says: "no write was tried", story: func() *story {
			return newStory().fault("move", "move-leader", "node-1", "etcd", 10, 14)
		}},
	})
}

func TestNoStaleRead(t *testing.T) {
	check := record.Check{Requirement: "HA-QR-006", Judge: "no-stale-read", Fault: "freeze", Bound: "2E", Params: map[string]string{"least": "3"}}
	// node-1 is frozen from 10 s to 13 s; meanwhile k is written through node-2.
	frozen := func(reads ...float64) *story {
		s := newStory().fault("freeze", "freeze", "node-1", "etcd", 10, 13)
		s.write(record.OpCreate, "node-2", "k", "old", 101, 5, 5.1).write(record.OpUpdate, "node-2", "k", "new", 115, 11.5, 11.6)
		for _, at := range reads {
			s.read("node-1", "k", "new", 115, at, at+0.1)
		}
		return s
	}
	rule(t, check, []ruling{
		{name: "as it should be", want: Pass, took: "3 reads", says: "Of 3 quorum reads through node-1, of keys written through other nodes during the freeze of etcd on node-1, none was stale until 2s after it", story: func() *story { return frozen(13.1, 14, 15) }},
		{name: "answered by other members during the freeze, and not asked after it", want: Inconclusive, says: "0 quorum reads were answered", story: func() *story {
			return frozen(11.8, 12, 12.3, 12.6)
		}},
		{name: "stale from another member during the freeze", want: Fail, says: `k was read as "old"`, story: func() *story {
			return frozen(13.2, 14, 15).read("node-1", "k", "old", 101, 12, 12.1)
		}},
		{name: "stale after the thaw", want: Fail, says: `k was read as "old"`, story: func() *story {
			return frozen(13.2, 14, 15).read("node-1", "k", "old", 101, 13.1, 13.2)
		}},
		{name: "asked while frozen, stale when answered", want: Fail, says: "No quorum read may be stale", story: func() *story {
			return frozen(13.2, 14, 15).read("node-1", "k", "old", 101, 12, 13.2)
		}},
		{name: "stale from the member itself", want: Fail, says: "No quorum read may be stale", story: func() *story {
			s := frozen(13.2, 14, 15)
			s.write(record.OpPut, "node-2", "/k", "old", 102, 5, 5.1).last().API = "etcd"
			s.write(record.OpPut, "node-2", "/k", "new", 116, 11.5, 11.6).last().API = "etcd"
			s.read("node-1", "/k", "old", 102, 13.1, 13.2).last().API = "etcd"
			s.last().Consistency = "linearizable"
			return s
		}},
		{name: "serializable reads may be", want: Pass, story: func() *story {
			s := frozen(13.2, 14, 15).read("node-1", "k", "old", 101, 13.1, 13.2)
			s.last().Consistency = "any"
			return s
		}},
		{name: "asked before the write was over", want: Pass, story: func() *story {
			return frozen(13.2, 14, 15).read("node-1", "k", "old", 101, 11.55, 13.2)
		}},
		{name: "later", want: Inconclusive, says: "2 quorum reads were answered", story: func() *story { return frozen(13.2, 15, 16.5) }},
		{name: "keys that nobody wrote", want: Inconclusive, says: "0 quorum reads were answered", story: func() *story {
			return frozen().write(record.OpCreate, "node-2", "other", "v", 102, 5, 5.1).read("node-1", "other", "v", 102, 13.1, 13.2).
				read("node-1", "other", "v", 102, 13.3, 13.4).read("node-1", "other", "v", 102, 13.5, 13.6)
		}},
		{name: "no number", want: Inconclusive, says: `least = "few"`, story: func() *story {
			c := check
			c.Params, c.Level = map[string]string{"least": "few"}, "MUST"
			return frozen(12, 13.1, 15).change(func(r *record.Run) { r.Meta.Checks = []record.Check{c} })
		}},
	})
}

// distant has writes that take so long before and while two faults last.
func distant(before, during float64) *story {
	s := newStory().fault("f", "latency", "node-1", "", 10, 20).fault("g", "latency", "node-2", "", 11, 19)
	n := 0
	for _, e := range []string{"node-1", "node-2", "node-3"} {
		for _, part := range []struct{ from, to, takes float64 }{{1, 9.5, before}, {11.1, 18.9, during}} {
			for at := range steps(part.from, part.to, 0.5) {
				n++
				s.write(record.OpCreate, e, fmt.Sprint("k", n), "v", 0, at, at+part.takes)
			}
		}
	}
	return s
}

func TestCommitLatency(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-QR-011", Judge: "commit-latency", Fault: "f", Bound: "240ms", Params: map[string]string{"faults": "g"}}, []ruling{
		{name: "two round trips", want: Pass, took: "200ms", says: "at most 200ms longer than before", story: func() *story { return distant(0.01, 0.21) }},
		{name: "more", want: Fail, took: "300ms", says: "A write must take at most 240ms", story: func() *story { return distant(0.01, 0.31) }},
		{name: "API servers that ask members of other nodes", want: Pass, took: "300ms", says: "within 480ms (240ms + remote etcd", story: func() *story {
			return distant(0.01, 0.31).change(func(r *record.Run) { r.Meta.RemoteEtcd = true })
		}},
		{name: "more, from members of other nodes", want: Fail, took: "500ms", says: "at most 480ms", story: func() *story {
			return distant(0.01, 0.51).change(func(r *record.Run) { r.Meta.RemoteEtcd = true })
		}},
		{name: "hosts of etcd elsewhere", want: NotApplicable, says: "The faults hit node-1 and node-2, where no etcd member runs", story: func() *story {
			return distant(0.01, 0.01).change(func(r *record.Run) {
				r.Meta.RemoteEtcd = true
				for i := range r.Meta.Nodes {
					r.Meta.Nodes[i].Components = []string{"kube-apiserver"}
				}
			})
		}},
		{name: "most timed out", want: Fail, took: "4.99s", story: func() *story {
			return distant(0.01, 0.21).change(func(r *record.Run) {
				for i := range r.Ops {
					if o := &r.Ops[i].V; o.Call > sec(11) && i%3 > 0 {
						o.Outcome, o.Return = record.Unknown, o.Call+sec(5)
					}
				}
			})
		}},
		{name: "no longer than before", want: Pass, took: "-10ms", story: func() *story { return distant(0.1, 0.09) }},
		{name: "slow before", want: Inconclusive, says: "already took 300ms before the faults", story: func() *story { return distant(0.3, 0.31) }},
		{name: "a slow one", want: Pass, story: func() *story {
			return distant(0.01, 0.21).write(record.OpCreate, "node-1", "slow", "v", 0, 12, 16)
		}},
		{name: "starved", want: Inconclusive, says: "starved", story: func() *story {
			return distant(0.01, 0.31).change(func(r *record.Run) { r.Harness[15].V.Late = time.Second })
		}},
		{name: "too few", want: Inconclusive, says: "too few writes through node-1", story: func() *story {
			return distant(0.01, 0.01).change(func(r *record.Run) { r.Ops = r.Ops[:20] })
		}},
		{name: "never together", want: Inconclusive, says: "never active together", story: func() *story {
			s := newStory().fault("f", "latency", "node-1", "", 10, 15).fault("g", "latency", "node-2", "", 16, 19)
			return everywhere(s, 1, 30)
		}},
	})
}

func TestNoElection(t *testing.T) {
	// Every member names m1 in term 2, each second.
	calm := func() *story {
		s := newStory().fault("f", "latency", "node-1", "", 10, 20)
		for at := range 40 {
			for _, node := range []string{"node-1", "node-2", "node-3"} {
				s.at(float64(at)).etcd(node, "m1", 2)
			}
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-QR-011", Judge: "no-election", Fault: "f"}, []ruling{
		{name: "as it should be", want: Pass, says: "member m1 remained etcd's leader in term 2", story: calm},
		{name: "another leader", want: Fail, says: "member m1 led in term 2 before, and at 15.000s the member on node-2 named m3 in term 3", story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd[46].V.Leader, r.Etcd[46].V.Term = "m3", 3 })
		}},
		{name: "the same one, elected again", want: Fail, says: "named m1 in term 3", story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd[46].V.Term = 3 })
		}},
		{name: "a member that is behind", want: Pass, story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd[46].V.Leader, r.Etcd[46].V.Term = "m3", 1 })
		}},
		{name: "later", want: Pass, story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd[100].V.Term = 3 })
		}},
		{name: "starved", want: Inconclusive, says: "starved", story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd[46].V.Term = 3; r.Harness[12].V.Late = time.Second })
		}},
		{name: "no answers", want: Inconclusive, says: "gave its status 0 times", story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd = r.Etcd[:30] })
		}},
		{name: "nothing known of before", want: Inconclusive, says: "which etcd member led before", story: func() *story {
			return calm().change(func(r *record.Run) { r.Etcd = r.Etcd[33:] })
		}},
	})
}

func TestWritesSucceed(t *testing.T) {
	lossy := func(ok, lost int) *story {
		s := newStory().fault("f", "loss", "node-1", "", 10, 20)
		for i := range ok + lost {
			at := 10 + float64(i)*0.1
			s.write(record.OpCreate, "node-1", fmt.Sprint("k", i), "v", 0, at, at+0.05)
			if i >= ok {
				s.outcome(record.Unknown)
			}
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-QR-012", Level: "SHOULD", Judge: "writes-succeed", Fault: "f"}, []ruling{
		{name: "enough", want: Pass, took: "50 %", says: "20 of 40 writes succeeded", story: func() *story { return lossy(20, 20) }},
		{name: "too few of them", want: Fail, took: "48 %", says: "At least 50 % of the writes must succeed", story: func() *story { return lossy(19, 21) }},
		{name: "none", want: Fail, took: "0 %", story: func() *story { return lossy(0, 30) }},
		{name: "lost races do not count", want: Pass, took: "50 %", story: func() *story {
			s := lossy(20, 40)
			for i := range s.run.Ops {
				if i >= 40 {
					s.run.Ops[i].V.Outcome, s.run.Ops[i].V.Error = record.Refused, "status 409 (Conflict): modified"
				}
			}
			return s
		}},
		{name: "probes count", want: Fail, says: "of 42 that were tried, 20 did", story: func() *story {
			return lossy(20, 20).probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(12), End: sec(13)}).
				probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(13), End: sec(14)})
		}},
		{name: "bursts do not count", want: Pass, took: "50 %", says: "20 of 40 writes succeeded", story: func() *story {
			s := lossy(20, 40)
			for i := range s.run.Ops[40:] {
				s.run.Ops[40+i].V.Purpose = facts.PurposeBurst
			}
			return s
		}},
		{name: "too few", want: Inconclusive, says: "10 writes were tried", story: func() *story { return lossy(5, 5) }},
		{name: "starved", want: Inconclusive, says: "starved", story: func() *story {
			return lossy(5, 30).change(func(r *record.Run) { r.Harness[15].V.Late = time.Second })
		}},
	})
}

func TestTimeTravel(t *testing.T) {
	moving := func(revisions ...int) *story {
		s := newStory().fault("cut", "isolate-etcd", "node-3", "etcd", 10, 30)
		for i, rev := range revisions {
			at := 12 + float64(i)
			s.read([]string{"node-1", "node-3"}[i%2], "moving", fmt.Sprint("v", rev), rev, at, at+0.1).purpose("moving-read")
			s.last().Consistency = "any"
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-QR-014", Level: "INFO", Judge: "time-travel", Fault: "cut"}, []ruling{
		// Version 5 at 15 s, two versions and 2.9 s after 6 was seen for the first time.
		{name: "back", want: Pass, took: "2.9s", says: "2 times in 4 reads, by 2.9s at most: it read version 6 of moving through node-1, and version 5 through node-3",
			story: func() *story { return moving(6, 5, 7, 5) }},
		{name: "never back", want: Inconclusive, says: "did not see time go backwards", story: func() *story { return moving(5, 5, 6, 6) }},
		{name: "not answered", want: Inconclusive, says: "1 read of a client that moves", story: func() *story { return moving(5) }},
		{name: "reads of others", want: Inconclusive, says: "0 reads", story: func() *story {
			return moving(6, 5, 7, 5).change(func(r *record.Run) {
				for i := range r.Ops {
					r.Ops[i].V.Purpose = ""
				}
			})
		}},
	})
}

// bursting gives all updates to bursts.
func bursting(s *story) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Ops {
			if op := &r.Ops[i].V; op.Type == record.OpUpdate {
				op.Purpose = facts.PurposeBurst
			}
		}
	})
}

// TestEnough is about the parameters that say how much checks of every run must have seen.
func TestEnough(t *testing.T) {
	contended := func(other string, why record.Refusal) *story {
		s := newStory().write(record.OpCreate, "node-1", "k", "v0", 100, 1, 1.1)
		for i := range 3 {
			at := 2 + float64(i)
			s.write(record.OpUpdate, "node-1", "k", fmt.Sprint("v", i+1), 101+i, at, at+0.1).last().Expect = fmt.Sprint(100 + i)
			s.write(record.OpUpdate, other, "k", fmt.Sprint("w", i), 0, at, at+0.2).refused(why).last().Expect = fmt.Sprint(100 + i)
		}
		return s
	}
	rule(t, record.Check{Requirement: "HA-QR-015", Judge: "one-winner", Params: map[string]string{"contended": "3"}}, []ruling{
		{name: "enough contention", want: Pass, says: "(3 contended for)", story: func() *story { return contended("node-2", record.RefusedVersion) }},
		{name: "contention in bursts", want: Pass, says: "(3 contended for)", story: func() *story { return bursting(contended("node-2", record.RefusedVersion)) }},
		{name: "a burst with two winners", want: Fail, says: "2 writes replacing version 100 of k succeeded", story: func() *story {
			return bursting(contended("node-2", record.RefusedVersion)).change(func(r *record.Run) {
				second := &r.Ops[2].V
				second.Outcome, second.Revision, second.Refusal, second.Error = record.OK, "110", "", ""
			})
		}},
		{name: "through an API server that refuses to look", want: Inconclusive, says: "for 0 versions", story: func() *story { return contended("node-2", "") }},
		{name: "through the balancer, which may lead to the same API server", want: Inconclusive, says: "for 0 versions", story: func() *story { return contended("balancer", record.RefusedVersion) }},
		{name: "through one API server", want: Inconclusive, says: "contended at the same time for 0 versions, fewer than the 3", story: func() *story { return contended("node-1", record.RefusedVersion) }},
	})
	lists := func(kinds ...record.ListMatch) *story {
		s := newStory().fault("kill", "kill", "node-2", "etcd", 10, 12)
		s.write(record.OpCreate, "node-1", "k", "v", 100, 1, 1.1).last().Collection = "c"
		for i, match := range kinds {
			for _, e := range []string{"node-1", "node-2", "node-3"} {
				page := record.Page{Revision: "100", Call: sec(13 + float64(i)), Return: sec(13.5 + float64(i)), Items: 1}
				l := record.List{Client: "l-" + e, Entrance: e, API: "kubernetes", Collection: "c", Match: match, Call: sec(13 + float64(i)), Return: sec(13.5 + float64(i)), Outcome: record.OK,
					Items: []record.Item{{Key: "k", Value: "v", Revision: "100"}}, Pages: []record.Page{page, page}}
				if match == record.MatchExact || match == record.MatchNotOlderThan {
					l.Asked = "100"
				}
				add(s, &s.run.Lists, l)
			}
		}
		return s
	}
	all := []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchNotOlderThan, record.MatchExact}
	rule(t, record.Check{Requirement: "HA-QR-013", Judge: "list-semantics", Fault: "kill", Params: map[string]string{"each": "1"}}, []ruling{
		{name: "lists of each kind", want: Pass, says: "12 lists", story: func() *story { return lists(all...) }},
		{name: "none of one kind", want: Inconclusive, says: "node-1 answered 0 lists (exact), fewer than the 1", story: func() *story { return lists(all[:3]...) }},
		{name: "none through one API server", want: Inconclusive, says: "node-3 answered 0 lists (unset)", story: func() *story {
			return lists(all...).change(func(r *record.Run) {
				for i := range r.Lists {
					if r.Lists[i].V.Entrance == "node-3" {
						r.Lists[i].V.Entrance = "balancer"
					}
				}
			})
		}},
		{name: "before the fault", want: Inconclusive, says: "answered 0 lists", story: func() *story {
			return lists(all...).change(func(r *record.Run) {
				for i := range r.Lists {
					r.Lists[i].V.Call -= sec(10)
				}
			})
		}},
		{name: "wrong all the same", want: Fail, says: "gave version 100", story: func() *story {
			return lists(all[2:3]...).change(func(r *record.Run) { r.Lists[0].V.Asked = "200" })
		}},
	})
}
