package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// isolated cuts off node-2 from 10 s to 30 s; the others continue after a second.
func isolated() *story {
	s := leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30)
	s.traffic("node-1", 1, 9.9).traffic("node-3", 1, 9.9).traffic("node-2", 1, 9.9)
	s.failing("node-2", 10.1, 29)
	return s.traffic("node-1", 11.2, 40).traffic("node-3", 11.2, 40).traffic("node-2", 32, 40)
}

// splitWith is isolated by a split with this parameter, and a write that the member acknowledges.
func splitWith(param, value string) func() *story {
	return func() *story {
		return isolated().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1).change(func(r *record.Run) {
			for i := range r.Faults {
				f := &r.Faults[i].V
				f.Name, f.Effects = "split", []record.Effect{record.EffectNetwork, record.EffectPartitioned}
				f.Params = map[string]string{param: value}
			}
		})
	}
}

func TestIsolatedMember(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-QR-002", Judge: "isolated-member", Fault: "cut", Bound: "2E + M"}, []ruling{
		{name: "as it should be", story: isolated, want: Pass, took: "1.21s", says: "(sent: 38 writes and 38 quorum reads through node-2), no write was acknowledged and no read was stale"},
		{name: "write acknowledged", want: Fail, says: "must acknowledge no write: node-2 acknowledged one at 15.100s, while the isolation of node-2 lasted", story: func() *story {
			return isolated().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1).purpose("minority-write")
		}},
		{name: "write probe acknowledged", want: Fail, says: "acknowledged one at 15.100s", story: func() *story {
			return isolated().probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(15), End: sec(15.1), OK: true})
		}},
		{name: "write acknowledged, harness starved", want: Fail, says: "must acknowledge no write", story: func() *story {
			return isolated().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1).change(func(r *record.Run) { r.Harness[15].V.Late = time.Minute })
		}},
		{name: "a split that leaves the member alone", want: Fail, says: "acknowledged one at 15.100s", story: splitWith("", "")},
		{name: "a split that leaves the member in a minority", want: Fail, says: "acknowledged one at 15.100s", story: splitWith("shape", "2-3")},
		{name: "named groups that leave the member alone", want: Fail, says: "acknowledged one at 15.100s", story: splitWith("groups", "node-2,node-1+node-3")},
		{name: "a split that leaves the member a majority", want: Inconclusive, says: "the split of node-2 may leave the etcd member on node-2 a quorum", story: splitWith("shape", "2-1")},
		{name: "named groups that leave the member a majority", want: Inconclusive, says: "a quorum", story: splitWith("groups", "2+1,3")},
		{name: "named groups of zones", want: Inconclusive, says: "a quorum", story: splitWith("groups", "zone/a,zone/b")},
		{name: "a bridge", want: Inconclusive, says: "a quorum", story: splitWith("shape", "bridge")},
		{name: "a split that flaps", want: Inconclusive, says: "a quorum", story: splitWith("flap", "1s/4s")},
		{name: "a split of another port", want: Inconclusive, says: "a quorum", story: splitWith("port", "apiserver")},
		{name: "write called before", want: Pass, story: func() *story {
			return isolated().write(record.OpCreate, "node-2", "new", "x", 200, 9.9, 10.1)
		}},
		{name: "write acknowledged after healing", want: Pass, story: func() *story {
			return isolated().write(record.OpCreate, "node-2", "new", "x", 391, 29, 30.5)
		}},
		{name: "stale read by revision", want: Fail, says: `through node-2, k was read as "old" at 20.000s, although "new" had been written through node-1 and acknowledged at 16.000s`, story: func() *story {
			return isolated().write(record.OpCreate, "node-1", "k", "old", 151, 5, 6).write(record.OpUpdate, "node-1", "k", "new", 251, 15, 16).
				read("node-2", "k", "old", 151, 20, 21)
		}},
		{name: "stale read by value", want: Fail, says: "No quorum read may be stale", story: func() *story {
			return isolated().write(record.OpCreate, "node-1", "k", "old", 0, 5, 6).write(record.OpUpdate, "node-1", "k", "new", 0, 15, 16).
				read("node-2", "k", "old", 0, 20, 21)
		}},
		{name: "stale read of what was deleted", want: Fail, says: `although its deletion had been written through node-1`, story: func() *story {
			return isolated().write(record.OpCreate, "node-1", "k", "old", 151, 5, 6).write(record.OpDelete, "node-1", "k", "", 251, 15, 16).
				read("node-2", "k", "old", 151, 20, 21)
		}},
		{name: "absent although written", want: Fail, says: "k was read as nothing", story: func() *story {
			return isolated().write(record.OpCreate, "node-1", "k", "new", 251, 15, 16).read("node-2", "k", "", 0, 20, 21)
		}},
		{name: "absent and perhaps deleted", want: Pass, story: func() *story {
			s := isolated().write(record.OpCreate, "node-1", "k", "new", 251, 15, 16)
			return s.write(record.OpDelete, "node-3", "k", "", 0, 17, 18).outcome(record.Unknown).read("node-2", "k", "", 0, 20, 21)
		}},
		{name: "concurrent with the write", want: Pass, story: func() *story {
			return isolated().write(record.OpCreate, "node-1", "k", "old", 151, 5, 6).write(record.OpUpdate, "node-1", "k", "new", 251, 15, 21).
				read("node-2", "k", "old", 151, 20, 21)
		}},
		{name: "another fault hits one meanwhile", want: Pass, says: "; through node-3 the longest time", story: func() *story {
			return isolated().fault("other", "kill", "node-1", "kube-apiserver", 15, 25).change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Entrance != "node-1" || o.Call < sec(15) })
			})
		}},
		{name: "the others stopped too", want: Fail, took: "10s", says: "must resume within 4s (2E + M, E = 1s, M = 2s) of the isolation of node-2: through node-1, no write was acknowledged for 10s (10.000s to 20.000s)", story: func() *story {
			s := leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30).failing("node-2", 10.1, 29).failing("node-1", 10.1, 20).failing("node-3", 10.1, 20)
			return s.traffic("node-1", 19.99, 40).traffic("node-3", 15, 40)
		}},
		{name: "the others stopped later", want: Fail, took: "8s", says: "(15.010s to 23.010s)", story: func() *story {
			s := leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30).failing("node-2", 10.1, 29).traffic("node-1", 10, 15.1)
			return s.failing("node-1", 15.1, 20).traffic("node-1", 23, 31).traffic("node-3", 10, 31)
		}},
		{name: "the others without traffic", want: Inconclusive, says: "no write was tried through node-3 from 10.000s for 20s", story: func() *story {
			return leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30).failing("node-2", 10.1, 29).traffic("node-1", 10, 31)
		}},
		{name: "no writes through the isolated one", want: Inconclusive, says: "0 writes and 38 quorum reads through node-2 were sent", story: func() *story {
			return isolated().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Entrance != "node-2" || !facts.IsWrite(o.Type) })
			})
		}},
		{name: "no reads through the isolated one", want: Inconclusive, says: "38 writes and 0 quorum reads through node-2 were sent", story: func() *story {
			return isolated().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Entrance != "node-2" || facts.IsWrite(o.Type) })
			})
		}},
		{name: "one too few through the isolated one", want: Inconclusive, says: "9 writes and 9 quorum reads through node-2 were sent from 10.000s to 30.000s, fewer than the 10 of each required for a verdict", story: isolatedUntil("", 14.5)},
		{name: "one too few that found a connection", want: Inconclusive, says: "38 writes and 9 quorum reads through node-2 were sent from", story: func() *story {
			return isolated().change(func(r *record.Run) {
				sent := 0
				for i := range r.Ops {
					if op := &r.Ops[i].V; op.Entrance == "node-2" && op.Type == record.OpGet && op.Call > sec(10) && op.Call < sec(30) {
						sent++
						op.Unsent = sent >= 10
					}
				}
			})
		}},
		{name: "just enough through the isolated one", want: Pass, says: "10 writes and 10 quorum reads through node-2", story: isolatedUntil("", 15)},
		{name: "one fewer than the check requires", want: Inconclusive, says: "fewer than the 12 of each required for a verdict", story: isolatedUntil("12", 15.5)},
		{name: "as many as the check requires", want: Pass, says: "12 writes and 12 quorum reads through node-2", story: isolatedUntil("12", 16)},
		{name: "less than the least is required", want: Inconclusive, says: `parameter attempts = "9" is not a number, 10 or more`, story: isolatedUntil("9", 30)},
		{name: "less than the least is required, and a write acknowledged", want: Fail, story: func() *story {
			return isolatedUntil("9", 30)().write(record.OpCreate, "node-2", "new", "x", 251, 15, 15.1)
		}},
	})
}

// isolatedUntil is isolated, but with attempts through node-2 only until a time, and with the
// check's parameter attempts.
func isolatedUntil(attempts string, last float64) func() *story {
	return func() *story {
		return isolated().change(func(r *record.Run) {
			keep(r, func(o record.Op) bool { return o.Entrance != "node-2" || o.Call < sec(last) || o.Call > sec(30) })
			r.Meta.Checks = []record.Check{{Requirement: "HA-QR-002", Level: "MUST", Judge: "isolated-member", Fault: "cut", Bound: "2E + M", Params: map[string]string{"attempts": attempts}}}
		})
	}
}

func keep(r *record.Run, f func(record.Op) bool) {
	var ops []record.Timed[record.Op]
	for _, o := range r.Ops {
		if f(o.V) {
			ops = append(ops, o)
		}
	}
	r.Ops = ops
}

func TestStaleSerializableRead(t *testing.T) {
	etcdOp := func(s *story, consistency string) *story {
		s.last().API, s.last().Consistency, s.last().Purpose = "etcd", consistency, "stale-read"
		return s
	}
	base := func() *story {
		s := isolated()
		etcdOp(s.write(record.OpPut, "node-1", "/k", "old", 10, 5, 6), "")
		return etcdOp(s.write(record.OpPut, "node-1", "/k", "new", 11, 15, 16), "")
	}
	rule(t, record.Check{Requirement: "HA-QR-003", Level: "INFO", Judge: "stale-serializable-read", Fault: "cut"}, []ruling{
		{name: "seen", want: Pass, took: "4.5s", says: `returned "old" for /k, 4.5s after "new" had been acknowledged through node-1`, story: func() *story {
			s := etcdOp(base().read("node-2", "/k", "old", 10, 18, 18.1), "serializable")
			return etcdOp(s.read("node-2", "/k", "old", 10, 20.5, 20.6), "serializable")
		}},
		{name: "by value only", want: Pass, took: "2s", story: func() *story {
			return etcdOp(base().read("node-2", "/k", "old", 0, 18, 18.1), "serializable")
		}},
		{name: "fresh", want: Inconclusive, says: "the hazard was not seen", story: func() *story {
			return etcdOp(base().read("node-2", "/k", "new", 11, 18, 18.1), "serializable")
		}},
		{name: "after healing", want: Inconclusive, says: "no serializable read was tried", story: func() *story {
			return etcdOp(base().read("node-2", "/k", "old", 10, 30.5, 31), "serializable")
		}},
		{name: "linearizable", want: Inconclusive, says: "no serializable read was tried", story: func() *story {
			return etcdOp(base().read("node-2", "/k", "old", 10, 18, 18.1), "linearizable")
		}},
		{name: "unanswered", want: Inconclusive, says: "none of 1 serializable reads", story: func() *story {
			return etcdOp(base().read("node-2", "/k", "", 0, 18, 18.1).outcome(record.Unknown), "serializable")
		}},
	})
}

// leaderKilled kills the leader on node-1 at 10 s; writes continue after 1.3 s.
func leaderKilled() *story {
	s := leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30)
	s.change(func(r *record.Run) {
		for i := range r.Etcd {
			if e := &r.Etcd[i]; e.At > sec(10) {
				e.V.Leader, e.V.Term, e.V.OK = "m3", 3, e.V.Node != "node-1"
			}
		}
	})
	s.traffic("node-2", 1, 9.9).traffic("node-3", 1, 9.9).failing("node-2", 10, 11).failing("node-3", 10, 11)
	return s.traffic("node-2", 11.29, 40).traffic("node-3", 11.19, 40)
}

// splitVotes kills the leader on node-1 in term 2 at 10 s; the next leaders are of these terms, and
// writes continue at a time.
func splitVotes(until float64, terms ...uint64) *story {
	s := leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30)
	s.run.Etcd = slices.DeleteFunc(s.run.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.At > sec(10) })
	for i, term := range terms {
		s.at(12+float64(i)).etcd("node-3", "m3", term)
	}
	for _, n := range []string{"node-2", "node-3"} {
		s.traffic(n, 1, 9.9).failing(n, 10, until-1).traffic(n, until-0.01, 40)
	}
	return s
}

func TestWriteGap(t *testing.T) {
	check := record.Check{Requirement: "HA-QR-005", Level: "MUST", Judge: "write-gap", Fault: "kill", Bound: "2E + M"}
	elects := check
	elects.Params = map[string]string{"newLeader": "true"}
	with := func(s *story) *story { s.run.Meta.Checks = []record.Check{elects}; return s }
	rule(t, check, []ruling{
		{name: "as it should be", story: leaderKilled, want: Pass, took: "1.3s", says: "through node-2 and node-3 was 1.3s (through node-2), within 4s"},
		{name: "with a new leader", story: func() *story { return with(leaderKilled()) }, want: Pass, says: "; node-3 leads etcd"},
		{name: "a probe's write counts", want: Pass, took: "1.2s", story: func() *story {
			return leaderKilled().probe(record.Probe{Entrance: "node-2", Kind: record.ProbeWrite, Start: sec(10.1), End: sec(10.2), OK: true})
		}},
		{name: "a zone was hit", want: Pass, says: "through node-3 was", story: func() *story {
			return leaders(newStory()).fault("kill", "power-off", "", "", 10, 30).traffic("node-3", 1, 40).failing("node-1", 10, 30).failing("node-2", 10, 30).
				change(func(r *record.Run) { r.Faults[0].V.Nodes = []string{"node-1", "node-2"} })
		}},
		{name: "the leader was in the zone", want: Pass, says: "; node-3 leads etcd", story: func() *story {
			return with(leaderKilled().change(func(r *record.Run) { r.Faults[0].V.Node, r.Faults[0].V.Nodes = "", []string{"node-1"} }))
		}},
		{name: "another fault hits one meanwhile", want: Pass, says: "through node-2 was", story: func() *story {
			return leaderKilled().fault("other", "kill", "node-3", "kube-apiserver", 20, 35).change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Entrance != "node-3" || o.Call < sec(20) })
			}).failing("node-3", 20, 35)
		}},
		{name: "no new leader", want: Fail, says: "etcd must have a new leader after the kill of etcd on node-1: until 9s after it, no surviving member named one in a later term than 2, in which member m1 on node-1 had led.", story: func() *story {
			return with(leaderKilled().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Leader, e.Term = "m1", 2 })))
		}},
		{name: "nobody asked long enough", want: Inconclusive, says: "none gave its status later than 4s after the kill of etcd on node-1", story: func() *story {
			return with(leaderKilled().change(func(r *record.Run) {
				r.Etcd = slices.DeleteFunc(r.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.At > sec(12) })
			}).change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Leader, e.Term = "m1", 2 })))
		}},
		{name: "new leader in the old term", want: Fail, says: "named one in a later term than 2", story: func() *story {
			return with(leaderKilled().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Term = 2 })))
		}},
		{name: "leader not hit", want: Inconclusive, says: "did not hit the etcd leader, which was member m2 on node-2", story: func() *story {
			return with(leaderKilled().change(eachEtcd(func(at record.Nanos, e *record.EtcdStatus) {
				if at < sec(10) {
					e.Leader = "m2"
				}
			})))
		}},
		{name: "leader unknown", want: Inconclusive, says: "does not show which etcd member led", story: func() *story {
			return with(leaderKilled().change(func(r *record.Run) { r.Etcd = nil }))
		}},
		{name: "too long", want: Fail, took: "7.02s", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).failing("node-2", 10, 16).failing("node-3", 10, 11).
				traffic("node-2", 17.01, 40).traffic("node-3", 11, 40)
		}},
		{name: "a split vote", want: Pass, took: "5.5s", says: "within 6s (2E + M + split votes, E = 1s, M = 2s, split votes = 2s)", story: func() *story { return splitVotes(15.5, 4) }},
		{name: "too long for a split vote", want: Fail, took: "6.5s", says: "within 6s", story: func() *story { return splitVotes(16.5, 4) }},
		{name: "too long for two leaders", want: Fail, took: "5.5s", says: "within 4s", story: func() *story { return splitVotes(15.5, 3, 4) }},
		{name: "too long, and a split vote in a later election", want: Fail, took: "5.5s", says: "within 4s", story: func() *story { return splitVotes(15.5, 3, 5) }},
		{name: "more split votes than can be", want: Fail, took: "8.5s", says: "within 8s", story: func() *story { return splitVotes(18.5, 9) }},
		{name: "too long, harness starved", want: Inconclusive, says: "up to 500ms late, more than 400ms", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).failing("node-2", 10, 16).failing("node-3", 10, 11).
				traffic("node-2", 17.01, 40).traffic("node-3", 11, 40).change(func(r *record.Run) { r.Harness[12].V.Late = 500 * time.Millisecond })
		}},
		{name: "asked for too late to tell", want: Inconclusive, says: "no write was tried through node-2 from 15.010s until 19.200s, and none was acknowledged until 19.210s", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).traffic("node-2", 10, 15.1).traffic("node-2", 19.2, 40).traffic("node-3", 10, 40)
		}},
		{name: "one not asked for, another in vain", want: Fail, took: "20s", says: "through node-3", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).failing("node-3", 10, 30)
		}},
		{name: "a longer time in which nobody asked", want: Fail, took: "5.2s", says: "(10.010s to 15.210s)", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).traffic("node-3", 10, 40).
				traffic("node-2", 10, 10.1).failing("node-2", 10.2, 15).traffic("node-2", 15.2, 15.3).traffic("node-2", 25, 40)
		}},
		{name: "never again", want: Fail, took: "20s", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 30).failing("node-2", 10, 30).traffic("node-3", 10, 40).
				traffic("node-2", 1, 9.9)
		}},
		{name: "healed too early to tell", want: Inconclusive, says: "which is less than the bound of 4s", story: func() *story {
			return leaders(newStory()).fault("kill", "kill", "node-1", "etcd", 10, 12).failing("node-2", 10, 12).traffic("node-3", 10, 40)
		}},
		{name: "balancer counts if asked", want: Fail, says: "through balancer, no write was acknowledged for 20s", story: func() *story {
			s := leaderKilled().failing("balancer", 10, 30)
			s.run.Meta.Checks = []record.Check{check}
			s.run.Meta.Checks[0].Params = map[string]string{"balancer": "true"}
			return s
		}},
	})
}

// lost kills two members at 10 s and 12 s and brings them back at 25 s and 30 s.
func lost() *story {
	s := leaders(newStory()).fault("a", "kill", "node-1", "etcd", 10, 25).fault("b", "kill", "node-2", "etcd", 12, 30)
	s.traffic("node-3", 1, 9.9)
	s.failing("node-3", 12.1, 25).failing("balancer", 12.1, 25).traffic("node-3", 28, 50)
	for i := range 6 {
		s.read("node-3", "k-node-3-1", "v45", 198, 50+float64(i), 50.1+float64(i))
	}
	return s
}

// healedAt has the healing of a fault take effect at a time.
func healedAt(s *story, id string, t float64) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Faults {
			if f := &r.Faults[i]; f.V.ID == id && f.V.Phase == record.FaultHealed {
				f.At, f.V.Effect = sec(t), sec(t)
			}
		}
	})
}

// without has no operations since quorum is back.
func without() *story {
	return lost().change(func(r *record.Run) { keep(r, func(o record.Op) bool { return o.Call < sec(25) }) })
}

// lostUntil is lost, but with attempts without a quorum only until a time, and with the check's
// parameter attempts.
func lostUntil(attempts string, last float64) func() *story {
	return func() *story {
		return lost().change(func(r *record.Run) {
			keep(r, func(o record.Op) bool { return o.Outcome == record.OK || o.Call < sec(last) })
			r.Meta.Checks = []record.Check{{Requirement: "HA-QR-009", Level: "MUST", Judge: "quorum-loss", Fault: "b", Bound: "2E + M", Params: map[string]string{"faults": "a, b", "attempts": attempts}}}
		})
	}
}

func TestQuorumLoss(t *testing.T) {
	check := record.Check{Requirement: "HA-QR-009", Level: "MUST", Judge: "quorum-loss", Fault: "b", Bound: "2E + M", Params: map[string]string{"faults": "a, b"}}
	rule(t, check, []ruling{
		{name: "as it should be", story: lost, want: Pass, took: "2.01s",
			says: "within 4s (2E + M, E = 1s, M = 2s), and 6 reads afterwards, of keys that had been written before, show nothing lost"},
		{name: "write acknowledged", want: Fail, says: "no write may be acknowledged: one was at 20.100s, while node-2 and node-1 were down (12.000s to 25.000s)", story: func() *story {
			return lost().write(record.OpCreate, "balancer", "n", "x", 301, 20, 20.1)
		}},
		{name: "write while one was down", want: Pass, story: func() *story {
			return lost().write(record.OpCreate, "node-3", "n", "x", 211, 11, 11.1)
		}},
		{name: "stale read", want: Fail, says: "may be stale", story: func() *story {
			return lost().write(record.OpCreate, "node-3", "n", "x", 181, 8, 8.1).write(record.OpUpdate, "node-3", "n", "y", 191, 9, 9.1).
				read("node-3", "n", "x", 181, 20, 20.1)
		}},
		{name: "back before the proof", want: Pass, took: "0s", story: func() *story {
			return lost().write(record.OpCreate, "node-1", "n", "x", 356, 25.5, 25.7)
		}},
		{name: "back too late", want: Fail, took: "5.01s", says: "must be back within 4s", story: func() *story {
			return without().failing("node-3", 26, 30.5).traffic("node-3", 31, 50)
		}},
		{name: "back after a split vote", want: Pass, took: "5.01s", says: "within 6s (2E + M + split votes", story: func() *story {
			s := without().failing("node-3", 26, 30.5).traffic("node-3", 31, 50).at(30).etcd("node-3", "m3", 4)
			for i := range 6 {
				s.read("node-3", "k-node-3-1", "v45", 198, 50+float64(i), 50.1+float64(i))
			}
			return s
		}},
		{name: "an election without a split vote", want: Fail, took: "5.01s", says: "must be back within 4s", story: func() *story {
			return without().failing("node-3", 26, 30.5).traffic("node-3", 31, 50).at(30).etcd("node-3", "m3", 3)
		}},
		{name: "a quorum that takes long, and with it the answer", want: Fail, took: "22.51s", says: "must be back within 4s", story: func() *story {
			s := without().failing("node-3", 25.5, 57.9).traffic("node-3", 58, 70)
			return healedAt(healedAt(s, "a", 58), "b", 58).runs(25.5, "node-1", "etcd", 9)
		}},
		{name: "a member that answers with the quorum, as it does", want: Pass, took: "10ms", story: func() *story {
			return healedAt(lost(), "a", 28).runs(25.5, "node-1", "etcd", 9)
		}},
		{name: "never back", want: Fail, took: "23.7s", says: "some were tried until 23.7s after it", story: func() *story { return without().failing("node-3", 26, 50) }},
		{name: "one write took too long", want: Fail, took: "16s", story: func() *story {
			return without().write(record.OpCreate, "node-3", "n", "x", 500, 30, 42).read("node-3", "n", "x", 500, 43, 43.1)
		}},
		{name: "late, but not tried before", want: Inconclusive, says: "none was tried around the bound", story: func() *story { return without().traffic("node-3", 42, 50) }},
		{name: "not tried for long enough", want: Inconclusive, says: "none was tried beyond the bound", story: func() *story { return without().failing("node-3", 26, 29) }},
		{name: "not tried", want: Inconclusive, says: "none was tried beyond the bound", story: without},
		{name: "record ends too early", want: Inconclusive, says: "or the record ends before", story: func() *story {
			return without().failing("node-3", 26, 28.5).change(func(r *record.Run) { r.EndAt = sec(29) })
		}},
		{name: "an acknowledged write lost", want: Fail, says: `No acknowledged write may be lost with the quorum: once it was back, n was read through node-1 as nothing`, story: func() *story {
			return lost().write(record.OpCreate, "node-3", "n", "x", 211, 11, 11.1).read("node-1", "n", "", 0, 50, 50.1).purpose("final-read")
		}},
		{name: "reads afterwards of what was not there before", want: Inconclusive, says: "after the quorum was back, 0 reads of keys that had been written before", story: func() *story {
			return lost().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Call < sec(25) || o.Key != "k-node-3-1" })
			})
		}},
		{name: "no reads afterwards", want: Inconclusive, says: "after the quorum was back, 0 reads", story: func() *story {
			return lost().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Call < sec(25) || o.Type != record.OpGet })
			})
		}},
		{name: "no writes meanwhile", want: Inconclusive, says: "0 writes and 26 quorum reads through node-3 were sent", story: func() *story {
			return lost().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Outcome == record.OK || o.Type == record.OpGet })
			})
		}},
		{name: "one attempt too few", want: Inconclusive, says: "9 writes and 9 quorum reads through node-3 were sent from 12.000s to 25.000s, fewer than the 10 of each required for a verdict", story: lostUntil("", 16.5)},
		{name: "just enough attempts", want: Pass, says: "10 writes and 10 quorum reads through node-3", story: lostUntil("", 17)},
		{name: "one fewer than the check requires", want: Inconclusive, says: "fewer than the 12 of each required for a verdict", story: lostUntil("12", 17.5)},
		{name: "as many as the check requires", want: Pass, story: lostUntil("12", 18)},
		{name: "less than the least is required", want: Inconclusive, says: `parameter attempts = "9" is not a number, 10 or more`, story: lostUntil("9", 25)},
		{name: "never both down", want: Inconclusive, says: "never active together", story: func() *story {
			return leaders(newStory()).fault("a", "kill", "node-1", "etcd", 10, 15).fault("b", "kill", "node-2", "etcd", 18, 30).traffic("node-3", 1, 50)
		}},
		{name: "one without proof", want: Inconclusive, says: `the fault "a" (kill of etcd on node-1) had no proof of effect`, story: func() *story {
			return lost().change(func(r *record.Run) { r.Faults[0].V.Proven = false })
		}},
	})
}
