package judge

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// stolen has node-2 renew the scheduler's lease until a stranger takes it at 10 s, and node-3
// from then on (0: none).
func stolen(then float64) *story {
	s := newStory().fault("steal", "lease-steal", "node-2", "kube-scheduler", 10, 40)
	for i := 0; i <= 58; i += 2 {
		switch t := float64(i); {
		case t < 10:
			s.at(t).lease("kube-scheduler", "node-2_b", 100+i, t)
		case then == 0 || t < then:
			s.at(t+0.1).lease("kube-scheduler", "holdfast-stranger", 110, 10)
		default:
			s.at(t).lease("kube-scheduler", "node-3_c", 200+i, t)
		}
	}
	return s
}

// renewedByThief has the stranger renew the lease each time it was seen, until a time.
func renewedByThief(s *story, until float64) *story {
	for i := range s.run.Leases {
		if l := &s.run.Leases[i]; l.V.Holder == "holdfast-stranger" {
			at := min(l.At, sec(until))
			l.V.Renew, l.V.Revision = time.Unix(0, int64(at)), fmt.Sprint(100+int(at/sec(1)))
		}
	}
	return s
}

// held has another instance hold the lease instead of the one on node-3.
func held(s *story, holder, node string) *story {
	for i := range s.run.Leases {
		if l := &s.run.Leases[i].V; l.HolderNode == "node-3" {
			l.Holder, l.HolderNode = holder, node
		}
	}
	return s
}

func TestActiveAgain(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-006", Judge: "active-again", Fault: "steal", Bound: "L + P + M"}, []ruling{
		{name: "another one takes it", story: func() *story { return stolen(26) }, want: Pass, took: "16s",
			says: "kube-scheduler, active on node-2 before the lease-steal of kube-scheduler on node-2, was active on node-3 afterwards; its lease was without a renewal for 16s at most, within 19s (L + P + M"},
		{name: "another one takes it late, since etcd elected a leader", want: Pass, took: "22s", says: "within 25s (L + P + M + election of etcd", story: func() *story { return leaderLost(stolen(32), 3*time.Second, 3) }},
		{name: "another one takes it late, and etcd had its leader", want: Fail, took: "20.1s", says: "within 19s", story: func() *story { return leaderLost(stolen(32), 3*time.Second, 2) }},
		{name: "one on a node that joined takes it", want: Pass, took: "16s", says: "was active on node-4 afterwards", story: func() *story {
			return held(stolen(26).changed("fourth", record.NodeAdded, "node-4", "10.77.0.14", 2, 4), "node-4_d", "node-4")
		}},
		{name: "one on no node takes it", want: Fail, says: "none renewed the lease", story: func() *story { return held(stolen(26), "elsewhere_d", "elsewhere") }},
		{name: "the same one continues", want: Pass, took: "2s", says: "continued", story: func() *story {
			s := newStory().fault("steal", "kill", "node-2", "kube-apiserver", 9.9, 40)
			for i := 0; i <= 58; i += 2 {
				s.at(float64(i)).lease("kube-scheduler", "node-2_b", 100+i, float64(i))
			}
			s.run.Meta.Checks = []record.Check{{Requirement: "HA-LE-006", Level: "MUST", Judge: "active-again", Fault: "steal",
				Bound: "L + P + M", Params: map[string]string{"component": "kube-scheduler"}}}
			return s
		}},
		{name: "changed by others, and not renewed", want: Fail, took: "49s", says: "for 49s none renewed the lease, which node-2_b had held", story: func() *story {
			s := newStory().fault("steal", "lease-steal", "node-2", "kube-scheduler", 10, 40)
			for i := range 60 {
				s.at(float64(i)).lease("kube-scheduler", "node-2_b", 100+i, min(float64(i), 9))
			}
			return s
		}},
		{name: "another one takes it while it is valid", want: Fail, says: "node-3_c on node-3 took over the lease of kube-scheduler at 16.000s, though holdfast-stranger had it, for 15s from 10.000s at the earliest", story: func() *story { return stolen(16) }},
		{name: "the same one takes it back while it is valid", want: Fail, says: "node-2_b on node-2 took over the lease", story: func() *story { return held(stolen(16), "node-2_b", "node-2") }},
		{name: "another one takes it while it is valid, harness starved", want: Fail, says: "took over the lease", story: func() *story {
			return stolen(16).change(func(r *record.Run) { r.Harness[15].V.Late = 5 * time.Second })
		}},
		{name: "another one takes it when its own settings allow that", want: Pass, took: "16s", story: func() *story {
			return stolen(26).change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Duration = 60
				}
			})
		}},
		{name: "another one takes it once it was released", want: Pass, story: func() *story {
			return stolen(16).at(15).lease("kube-scheduler", "", 150, 15).change(func(r *record.Run) { sortTimed(r.Leases) })
		}},
		{name: "another one takes it once it was healed", want: Pass, story: func() *story {
			return stolen(16).change(func(r *record.Run) { r.Faults[1].V.Called = sec(15) })
		}},
		{name: "another one is elected by API servers", want: Pass, story: func() *story {
			return stolen(16).change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Strategy = "OldestEmulationVersion"
				}
			})
		}},
		{name: "another one takes it after the fault stopped renewing it", want: Pass, took: "15.9s", says: "was active on node-3 afterwards", story: func() *story { return renewedByThief(stolen(38), 22) }},
		{name: "another one takes it too late after the fault stopped renewing it", want: Fail, took: "22s", says: "for 22", story: func() *story { return renewedByThief(stolen(46), 22) }},
		{name: "renewed by an unknown identity after a fault that did not take it", want: Fail, says: "none renewed the lease", story: func() *story {
			return renewedByThief(stolen(38), 22).change(func(r *record.Run) { r.Faults[0].V.Effects = []record.Effect{record.EffectFrozen} })
		}},
		{name: "renewed by an unknown identity beyond the fault", want: Fail, says: "none renewed the lease", story: func() *story { return renewedByThief(stolen(0), 58) }},
		{name: "too late", story: func() *story { return stolen(32) }, want: Fail, took: "20.1s", says: "for 20.1s none renewed the lease, then node-3_c on node-3 did"},
		{name: "never", story: func() *story { return stolen(0) }, want: Fail, took: "48.1s", says: "none renewed the lease, which node-2_b had held"},
		{name: "given up, never held again", want: Fail, says: "none renewed", story: func() *story {
			return stolen(0).at(45).lease("kube-scheduler", "", 150, 45)
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return stolen(32).change(func(r *record.Run) { r.Harness[31].V.Late = 2 * time.Second })
		}},
		{name: "not looked at in between", want: Inconclusive, says: "not observed often enough", story: func() *story {
			return stolen(32).change(func(r *record.Run) {
				r.Leases = slices.DeleteFunc(r.Leases, func(l record.Timed[record.Lease]) bool { return l.At > sec(14) && l.At < sec(31) })
			})
		}},
		{name: "deleted, and gone for too long", want: Fail, took: "21s", says: "then node-3_c", story: func() *story {
			s := stolen(32).change(func(r *record.Run) {
				r.Leases = slices.DeleteFunc(r.Leases, func(l record.Timed[record.Lease]) bool { return l.V.Holder == "holdfast-stranger" })
			})
			return s.at(31).lease("kube-scheduler", "", 0, 0).change(func(r *record.Run) {
				r.Leases[len(r.Leases)-1].V.Revision = ""
				slices.SortStableFunc(r.Leases, func(a, b record.Timed[record.Lease]) int { return cmp.Compare(a.At, b.At) })
			})
		}},
		{name: "a late reading of the old one", want: Fail, took: "20.1s", story: func() *story {
			return stolen(32).at(11).lease("kube-scheduler", "node-2_b", 108, 8)
		}},
		{name: "it held it for a moment", want: Fail, says: "for 32", story: func() *story {
			return stolen(0).at(26).lease("kube-scheduler", "node-3_c", 200, 26)
		}},
		{name: "watched too short", want: Inconclusive, says: "less than the bound", story: func() *story {
			return stolen(0).change(func(r *record.Run) { r.Leases = r.Leases[:12] })
		}},
		{name: "healed and hit again too soon", want: Inconclusive, says: "less than the bound", story: func() *story {
			return stolen(26).fault("again", "lease-delete", "node-2", "kube-scheduler", 15, 16)
		}},
		{name: "nothing seen afterwards", want: Inconclusive, says: "no state of the lease", story: func() *story {
			return stolen(0).change(func(r *record.Run) { r.Leases = r.Leases[:5] })
		}},
		{name: "two holders", want: Fail, says: "must never have two holders: version 230", story: func() *story {
			return stolen(26).at(31).lease("kube-scheduler", "node-1_a", 230, 30)
		}},
		{name: "another was active", want: Inconclusive, says: "did not hit the active instance", story: func() *story {
			return stolen(26).change(func(r *record.Run) { r.Faults[0].V.Node = "node-1" })
		}},
	})
}

// dropped has node-2 be active until a stranger steals the lease at 10 s, and node-3
// act from 27 s on.
func dropped() *story {
	s := stolen(26).renews("node-2", 1, 10).action("node-2", 3).action("node-2", 8).renews("node-3", 26, 58).action("node-3", 27).action("node-3", 50)
	return s.probes("node-2", true, 1, 58).heard("node-2")
}

// thawed has node-2 be frozen at 10 s, node-3 take over at 26 s, and node-2 be thawed
// at 40 s.
func thawed() *story {
	s := newStory().fault("freeze", "freeze", "node-2", "kube-scheduler", 10, 39)
	s.change(func(r *record.Run) { r.EndAt = sec(64) })
	for i := 0; i <= 58; i += 2 {
		if t := float64(i); t < 26 {
			s.at(t).lease("kube-scheduler", "node-2_b", 100+min(i, 10), min(t, 10))
		} else {
			s.at(t).lease("kube-scheduler", "node-3_c", 200+i, t)
		}
	}
	s.renews("node-2", 1, 10).action("node-2", 8).renews("node-3", 26, 62).action("node-3", 27).action("node-3", 50)
	return s.probes("node-2", true, 1, 63).heard("node-2")
}

func TestStopsActing(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-006", Judge: "stops-acting", Fault: "steal", Bound: "P + R + M"}, []ruling{
		{name: "it does nothing more", story: dropped, want: Pass, took: "0s", says: "stopped acting within 14s (P + R + M, M = 2s, P = 2s, R = 10s) of the lease-steal of kube-scheduler on node-2: it did nothing more, while the others acted 2 times"},
		{name: "until its deadline", want: Pass, took: "9s", says: "it acted 2 times after that, the last time 9s later", story: func() *story {
			return dropped().action("node-2", 12).action("node-2", 19)
		}},
		{name: "it continues", want: Fail, says: "when holdfast-stranger had its lease: it acted 15s later, and was not elected again: create of pods/binding", story: func() *story {
			return dropped().action("node-2", 25)
		}},
		{name: "long afterwards", want: Fail, took: "45s", story: func() *story { return dropped().action("node-2", 55) }},
		{name: "it goes on, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return dropped().action("node-2", 25).change(func(r *record.Run) { r.Harness[25].V.Late = 2 * time.Second })
		}},
		{name: "elected again at once", want: Pass, took: "2s", says: "was elected again 2s after", story: func() *story {
			return dropped().renews("node-2", 12, 13).action("node-2", 25)
		}},
		{name: "elected again by a clock that is ahead", want: Inconclusive, says: "may have been elected again", story: func() *story {
			return dropped().renews("node-2", 12, 13).lastAction(func(a *record.Timed[record.Action]) { a.At -= sec(0.6) }).action("node-2", 25)
		}},
		{name: "elected again later", want: Pass, story: func() *story { return dropped().renews("node-2", 55, 56).action("node-2", 56) }},
		{name: "before it was elected again", want: Fail, story: func() *story { return dropped().renews("node-2", 55, 56).action("node-2", 54) }},
		{name: "without effect", want: Pass, story: func() *story {
			return dropped().action("node-2", 25).lastAction(func(a *record.Timed[record.Action]) { a.V.Code = 409 })
		}},
		{name: "waited before an API server that stood still", want: Pass, story: func() *story {
			return dropped().change(func(r *record.Run) { r.Probes = nil }).action("node-2", 25)
		}},
		{name: "read late, and within the bound", want: Pass, took: "10s", says: "it acted 1 time after that", story: func() *story {
			return dropped().action("node-2", 20).readLate(41)
		}},
		{name: "read late, and beyond the bound", want: Fail, took: "15s", story: func() *story { return dropped().action("node-2", 25).readLate(41) }},
		{name: "of an unknown time", want: Inconclusive, says: "the clock of the API server on node-2 does not agree with the harness's, by which it acted: create of pods/binding", story: func() *story {
			return dropped().action("node-2", 25).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(41) })
		}},
		{name: "of an unknown time, and read within the bound", want: Pass, story: func() *story {
			return dropped().action("node-2", 12).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(23) })
		}},
		{name: "of an unknown time, when it was elected again", want: Pass, says: "was elected again 2s after", story: func() *story {
			return dropped().renews("node-2", 12, 13).action("node-2", 25).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(41) })
		}},
		{name: "from an address that is not a node's", want: Inconclusive, says: "the source address of a request is not a node's", story: func() *story {
			return dropped().action("node-2", 25).lastAction(unowned)
		}},
		{name: "from an address that is not a node's, within the bound", want: Pass, story: func() *story { return dropped().action("node-2", 20).lastAction(unowned) }},
		{name: "reading of its API server's log stops", want: Inconclusive, says: "the audit log of the API server on node-2 was not read to the end", story: func() *story {
			return dropped().change(func(r *record.Run) { r.Asked = r.Asked[:24] })
		}},
		{name: "reading of its API server's log stops, and the log shows that it continued", want: Fail, took: "15s", story: func() *story {
			return dropped().action("node-2", 25).change(func(r *record.Run) { r.Asked = r.Asked[:27] })
		}},
		{name: "its API server responds no longer, and logs nothing", want: Pass, story: func() *story {
			return dropped().change(func(r *record.Run) {
				r.Asked = r.Asked[:24]
				r.Probes = slices.DeleteFunc(r.Probes, func(p record.Timed[record.Probe]) bool { return p.V.Start >= sec(24) })
			})
		}},
		{name: "nothing to do", want: Inconclusive, says: "nothing to do", story: func() *story {
			return stolen(26).renews("node-2", 1, 10).renews("node-3", 26, 58)
		}},
		{name: "its API server's log is missing", want: Inconclusive, says: "did before the fault", story: func() *story {
			return stolen(26).renews("node-3", 26, 58).action("node-3", 27)
		}},
		{name: "it kept the lease", want: Inconclusive, says: "does not show that node-2_b lost", story: func() *story {
			return dropped().change(func(r *record.Run) { r.Leases = r.Leases[:5] })
		}},
	})
	rule(t, record.Check{Requirement: "HA-LE-004", Judge: "stops-acting", Fault: "freeze", Bound: "R + M", Params: map[string]string{"from": "heal"}}, []ruling{
		{name: "nothing after the thaw", story: thawed, want: Pass, took: "0s", says: "of the end of the freeze of kube-scheduler on node-2: it did nothing more"},
		{name: "until its new deadline", want: Pass, took: "8s", says: "it acted 1 time after that", story: func() *story { return thawed().action("node-2", 48) }},
		{name: "it continues", want: Fail, says: "when node-3_c had its lease: it acted 15s later", story: func() *story { return thawed().action("node-2", 55) }},
		{name: "read late, until its new deadline", want: Pass, took: "8s", story: func() *story { return thawed().action("node-2", 48).readLate(60) }},
		{name: "it continues, read late", want: Fail, says: "it acted 15s later", story: func() *story { return thawed().action("node-2", 55).readLate(60) }},
		{name: "the record ends too early", want: Inconclusive, says: "before the bound of 12s", story: func() *story {
			return thawed().change(func(r *record.Run) { r.EndAt = sec(51) })
		}},
		{name: "nobody had taken over", want: Inconclusive, says: "no other instance of kube-scheduler was seen to take over", story: func() *story {
			return thawed().change(func(r *record.Run) { r.Leases = r.Leases[:10] })
		}},
	})
}

func TestLeaseKept(t *testing.T) {
	// hung is a webhook that hangs from 10 to 40 s, while node-2 renews the scheduler's lease
	// as long as it may.
	hung := func(renews func(t float64) bool, then func(*story)) func() *story {
		return func() *story {
			s := newStory().fault("hang", "webhook-hang", "node-1", "kube-apiserver", 10, 40)
			last, at := 100, 0.0
			for i := 0; i <= 58; i += 2 {
				if t := float64(i); renews(t) {
					last, at = 100+i, t
				}
				s.at(float64(i)).lease("kube-scheduler", "node-2_b", last, at)
			}
			if then != nil {
				then(s)
			}
			return s.change(func(r *record.Run) { sortTimed(r.Leases) })
		}
	}
	always := func(float64) bool { return true }
	rule(t, record.Check{Requirement: "HA-LE-015", Judge: "active-again", Fault: "hang", Bound: "R", Params: map[string]string{"component": "kube-scheduler", "kept": "true"}}, []ruling{
		{name: "renewed throughout", want: Pass, took: "2s", says: "continued", story: hung(always, nil)},
		{name: "a renewal or two missing", want: Pass, took: "6s", story: hung(func(t float64) bool { return t <= 20 || t >= 26 }, nil)},
		{name: "not renewed", want: Fail, says: "none renewed the lease", story: hung(func(t float64) bool { return t <= 10 }, nil)},
		{name: "not renewed for too long", want: Fail, says: "none renewed the lease", story: hung(func(t float64) bool { return t <= 20 || t >= 36 }, nil)},
		{name: "lost to another one", want: Fail, says: `must not cost a holder its lease: node-2_b on node-2 held that of kube-scheduler, and at 22.000s the holder was "node-3_c"`,
			story: hung(func(t float64) bool { return t <= 20 }, func(s *story) { s.at(22).lease("kube-scheduler", "node-3_c", 150, 22) })},
		{name: "given up for a moment", want: Fail, says: `the holder was ""`,
			story: hung(always, func(s *story) { s.at(20.5).lease("kube-scheduler", "", 121, 20.5) })},
		{name: "an old reading", want: Pass, story: hung(always, func(s *story) { s.at(12).lease("kube-scheduler", "node-1_a", 90, 0) })},
		{name: "lease not observed", want: Inconclusive, says: "no state of the lease", story: hung(always, func(s *story) {
			s.run.Leases = slices.DeleteFunc(s.run.Leases, func(l record.Timed[record.Lease]) bool { return l.At > sec(10) })
		})},
	})
}
