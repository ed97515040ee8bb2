package judge

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var removal = record.Check{Requirement: "HA-EP-003", Level: "MUST", Judge: "endpoint-removed", Bound: "T + I + M", Fault: "kill"}

// removed is a record that passes removal and every check of a run.
func removed() *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 50).traffic("node-1", 1, 55)
	s.at(5).endpoints("node-1", "10.77.0.11", "10.77.0.12", "10.77.0.13")
	s.at(25).endpoints("node-1", "10.77.0.11", "10.77.0.13")
	s.at(45).endpoints("node-1", "10.77.0.11", "10.77.0.13")
	return leaders(s)
}

func leaders(s *story) *story {
	for t := range 20 {
		s.at(float64(t)).etcd("node-1", "m1", 2).etcd("node-2", "m1", 2).etcd("node-3", "m1", 2)
	}
	return s
}

// tooLate keeps the address of the lost API server.
func tooLate() *story {
	s := removed()
	s.run.Endpoints[2].V.Addresses = s.run.Endpoints[0].V.Addresses
	s.run.Endpoints[4].V.Addresses = s.run.Endpoints[0].V.Addresses
	return s
}

// lateBy drops the address of the lost API server, 27 s after the fault and some more.
func lateBy(more float64) *story {
	s := tooLate()
	return s.at(37+more).endpoints("node-1", "10.77.0.11", "10.77.0.13").change(func(r *record.Run) {
		r.Endpoints = slices.Concat(r.Endpoints[:4], r.Endpoints[6:])
	})
}

// overloaded has nine tasks share each CPU in some seconds.
func overloaded(s *story, seconds ...int) *story {
	for _, i := range seconds {
		s.run.Harness[i].V.Queue = 9
	}
	return s
}

func TestRulesForAll(t *testing.T) {
	rule(t, removal, []ruling{
		{name: "pass", story: removed, want: Pass, took: "15s", says: "within 27s (T + I + M, I = 10s, M = 2s, T = 15s)"},
		{name: "fail", story: tooLate, want: Fail, took: "35s", says: "was still listed in endpoints through node-1 after 35s"},
		{name: "damaged", want: Inconclusive, says: "damaged or was cut short: line 9: cut off", story: func() *story {
			return removed().change(func(r *record.Run) { r.Complete, r.Problem = false, "line 9: cut off" })
		}},
		{name: "not complete", want: Inconclusive, says: "no end entry", story: func() *story {
			return removed().change(func(r *record.Run) { r.Complete = false })
		}},
		{name: "ended early", want: Inconclusive, says: "the run stopped early: interrupted", story: func() *story {
			return removed().change(func(r *record.Run) { r.End.Error = "interrupted" })
		}},
		{name: "no baseline", want: Inconclusive, says: "the baseline was not checked", story: func() *story {
			return removed().change(func(r *record.Run) { r.Steadies = r.Steadies[1:] })
		}},
		{name: "unhealthy baseline", want: Inconclusive, says: "the baseline was unhealthy: node-3 is not ready", story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Steadies[0].V.OK, r.Steadies[0].V.Problems = false, []string{"node-3 is not ready"}
			})
		}},
		{name: "unhealthy baseline, broken too", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Steadies[0].V.OK = false })
		}},
		{name: "no injection", want: Inconclusive, says: `the fault "kill" was not injected`, story: func() *story {
			return removed().change(func(r *record.Run) { r.Faults = nil })
		}},
		{name: "injection failed", want: Inconclusive, says: `the fault "kill" was not injected; no such process`, story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = r.Faults[:1]
				r.Faults[0].V.Phase, r.Faults[0].V.Error = record.FaultFailed, "no such process"
			})
		}},
		{name: "ability missing", want: NotApplicable, says: `the fault "kill" cannot be injected into this cluster: needs the ability Killer`, story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = r.Faults[:1]
				r.Faults[0].V.Phase, r.Faults[0].V.Error, r.Faults[0].V.Missing = record.FaultFailed, "needs the ability Killer", "Killer"
			})
		}},
		{name: "ability for another fault missing", want: NotApplicable, says: `the fault "kill" was not injected, since this cluster does not support the fault "cold" of the same scenario: needs the ability Freezer`, story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = r.Faults[:1]
				r.Faults[0].V.ID, r.Faults[0].V.Phase, r.Faults[0].V.Error, r.Faults[0].V.Missing = "cold", record.FaultFailed, "needs the ability Freezer", "Freezer"
			})
		}},
		{name: "ability for a later fault missing", want: Pass, story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = append(r.Faults, record.Timed[record.Fault]{At: r.Faults[1].At + 1, V: record.Fault{ID: "cold", Phase: record.FaultFailed, Missing: "Freezer"}})
			})
		}},
		{name: "ability for a change of nodes missing", want: NotApplicable, says: `the fault "kill" was not injected, since this cluster does not support a change of nodes of the same scenario: needs the ability Scaler`, story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Faults = nil
				r.Nodes = append(r.Nodes, record.Timed[record.NodeChange]{V: record.NodeChange{Phase: record.NodeFailed, Error: "needs the ability Scaler", Missing: "Scaler"}})
			})
		}},
		{name: "no proof of effect", want: Inconclusive, says: "(kill of kube-apiserver on node-2) had no proof of effect: gone", story: func() *story {
			return removed().change(func(r *record.Run) { r.Faults[0].V.Proven = false })
		}},
		{name: "stopped, but killed after its grace period", want: Pass, took: "15s", story: func() *story {
			return removed().change(func(r *record.Run) { r.Faults[0].V.Killed = true })
		}},
		{name: "not healed", want: Inconclusive, says: "was not healed", story: func() *story {
			return removed().change(func(r *record.Run) { r.Faults = r.Faults[:1] })
		}},
		{name: "no proof of healing", want: Inconclusive, says: "the healing of fault \"kill\" (kill of kube-apiserver on node-2) had no proof", story: func() *story {
			return removed().change(func(r *record.Run) { r.Faults[1].V.Proven = false })
		}},
		{name: "healed at the second try", want: Pass, story: func() *story {
			return removed().change(func(r *record.Run) {
				first := r.Faults[1]
				first.V.Proven = false
				r.Faults = slices.Insert(r.Faults, 1, first)
			})
		}},
		{name: "damaged and not linearizable", want: Inconclusive, says: "damaged", story: func() *story {
			return removed().write(record.OpCreate, "node-1", "lost", "x", 1, 20, 21).read("node-3", "lost", "", 0, 52, 53).
				change(func(r *record.Run) { r.Complete, r.Problem = false, "line 9: cut off" })
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "its timers fired up to 3s late, more than 2s", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[30].V.Late = 3 * time.Second })
		}},
		{name: "too late, harness starved less than a tenth", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[30].V.Late = 2 * time.Second })
		}},
		{name: "too late by less than the harness was late", want: Inconclusive, says: "the bound was missed by 500ms, and the harness's timers or its clock were off by up to 600ms", story: func() *story {
			return lateBy(0.5).change(func(r *record.Run) { r.Harness[30].V.Late = 600 * time.Millisecond })
		}},
		{name: "too late by more than the harness was late", want: Fail, took: "27.5s", says: "only after 27.5s", story: func() *story {
			return lateBy(0.5).change(func(r *record.Run) { r.Harness[30].V.Late = 400 * time.Millisecond })
		}},
		{name: "too late, harness starved by more than the margin", want: Inconclusive, says: "up to 2.1s late, more than 2s", story: func() *story {
			return lateBy(9).change(func(r *record.Run) { r.Harness[30].V.Late = 2100 * time.Millisecond })
		}},
		{name: "too late, machine overloaded", want: Inconclusive, says: "the machine was overloaded: 5.0 tasks shared each CPU on average, more than 3", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue = 5
				}
			})
		}},
		{name: "too late, machine overloaded for some seconds", want: Inconclusive, says: "the machine was overloaded for 5s: more than 3 tasks shared each CPU, or a CPU quota was used up", story: func() *story {
			return overloaded(lateBy(3), 30, 31, 32, 33, 34)
		}},
		{name: "too late, machine overloaded now and then", want: Fail, took: "30s", story: func() *story { return overloaded(lateBy(3), 28, 29, 30, 31, 33, 34) }},
		{name: "too late by more than some seconds of overload", want: Fail, took: "32s", story: func() *story { return overloaded(lateBy(5), 30, 31, 32, 33, 34) }},
		{name: "too late, many tasks and computing time left", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue, r.Harness[i].V.Busy = 5, 0.7
				}
			})
		}},
		{name: "too late, computing time left at another time", want: Inconclusive, says: "the machine was overloaded: ", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue, r.Harness[i].V.Busy = 9, 1
					if i%3 == 0 {
						r.Harness[i].V.Busy = 0.5
					}
				}
			})
		}},
		{name: "too late, a CPU quota was used up", want: Inconclusive, says: "it was used up in 80 % of its periods, more than 20 %", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue, r.Harness[i].V.Busy, r.Harness[i].V.Throttled = 0.2, 0.1, 0.8
				}
			})
		}},
		{name: "too late, a CPU quota was used up for some seconds", want: Inconclusive, says: "the machine was overloaded for 5s", story: func() *story {
			return lateBy(3).change(func(r *record.Run) {
				for i := 30; i < 35; i++ {
					r.Harness[i].V.Throttled = 0.9
				}
			})
		}},
		{name: "too late, a CPU quota was used up now and then", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Throttled = 0.1
				}
			})
		}},
		{name: "too late, harness slept", want: Inconclusive, says: "wall and monotonic clock diverged by 30s, more than 2s", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[30].V.Jump = -30 * time.Second })
		}},
		{name: "too late, harness's clock set by a little", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[30].V.Jump = time.Second })
		}},
		{name: "too late, machine busy", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue = 2.9
				}
			})
		}},
		{name: "too late, machine overloaded at another time", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[1].V.Queue, r.Harness[2].V.Queue = 50, 50 })
		}},
		{name: "too late, harness starved at another time", want: Fail, says: "still listed", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness[4].V.Late = 30 * time.Second })
		}},
		{name: "too late, harness silent", want: Inconclusive, says: "did not record its own health", story: func() *story {
			return tooLate().change(func(r *record.Run) { r.Harness = nil })
		}},
		{name: "in time, harness starved", want: Pass, story: func() *story {
			return removed().change(func(r *record.Run) { r.Harness[20].V.Late = 30 * time.Second })
		}},
	})
}

func TestBadChecks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check record.Check
		says  string
	}{
		{"no such judge", record.Check{Judge: "oracle"}, `"oracle" is not a judge: want one of active-again, addons-converge, `},
		{"bad bound", record.Check{Judge: "endpoint-removed", Bound: "2Q", Fault: "kill"}, `bound "2Q"`},
		{"no bound", record.Check{Judge: "endpoint-removed", Fault: "kill"}, "names no bound"},
		{"no fault", record.Check{Judge: "endpoint-removed", Bound: "M"}, "names no fault"},
	} {
		s := removed()
		s.run.Meta.Checks = []record.Check{tt.check}
		if r := Evaluate(s.run)[0]; r.Verdict != Inconclusive || !strings.Contains(r.Sentence, tt.says) {
			t.Errorf("%s: %s, %s", tt.name, r.Verdict, r.Sentence)
		}
	}
}

func TestInfoIsNeverFailed(t *testing.T) {
	check := removal
	check.Level = "INFO"
	rule(t, check, []ruling{
		{name: "measured", story: removed, want: Pass},
		{name: "broken", story: tooLate, want: Inconclusive, says: "still listed"},
	})
}

func TestOrderAndDeterminism(t *testing.T) {
	second := removal
	second.Requirement, second.Fault = "HA-EP-004", "freeze"
	s := removed()
	s.run.Meta.Checks = []record.Check{removal, second}
	var names []string
	results := Evaluate(s.run)
	for _, r := range results {
		if r.Verdict != NotApplicable {
			names = append(names, r.Requirement+" "+r.Judge+" "+string(r.Verdict))
		}
	}
	want := []string{
		"HA-EP-003 endpoint-removed pass", "HA-EP-004 endpoint-removed inconclusive",
		"HA-INV-001 linearizable pass", "HA-INV-001 read-your-writes pass", "HA-INV-001 monotonic-reads pass",
		"HA-INV-003 revision-order pass", "HA-INV-010 steady-state pass",
		"HA-INV-009 one-leader-per-term pass", "HA-INV-009 etcd-hashes inconclusive", "HA-INV-009 etcd-alarms pass", "RUN/harness harness pass",
	}
	if !slices.Equal(names, want) {
		t.Errorf("results %q, want %q", names, want)
	}
	first, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, _ := json.Marshal(Evaluate(s.run)); string(again) != string(first) {
			t.Fatalf("not the same:\n%s\n%s", first, again)
		}
	}
}

// The other parts that must be steady are named with their times, and so are those not known, as
// in records from before they were checked.
func TestSteadyParts(t *testing.T) {
	rule(t, record.Check{Requirement: "X", Judge: "steady-state"}, []ruling{
		{name: "of before", want: Pass, says: "Not judged, since the record does not show them: leases, addresses of API servers, removal of other addresses, writes and watches, connections between nodes.", story: removed},
		{name: "all", want: Pass, says: "limit of 20s. The slowest of each kind: leases after 21s, addresses of API servers after 1s, removal of other addresses after 25s, writes and watches after 2s, connections between nodes after 3s.", story: func() *story {
			return removed().part("lease of kube-scheduler", 2*time.Second).part("lease of kube-controller-manager", 21*time.Second).part("lease of kube-scheduler", time.Second).
				part(record.PartListed, time.Second).part(record.PartUnlisted, 25*time.Second).part(record.PartRequests, 2*time.Second).part(record.PartConnections, 3*time.Second)
		}},
		{name: "some", want: Pass, says: "The slowest of each kind: leases after 1s. Not judged, since the record does not show them: addresses", story: func() *story {
			return removed().part("lease of kube-scheduler", time.Second)
		}},
		{name: "one checked too late", want: Inconclusive, says: "writes and watches was steady when it was checked after 46s, later than 43.8s", story: func() *story {
			return removed().at(59).part("lease of kube-scheduler", time.Second).part(record.PartRequests, 46*time.Second).change(followedFrom(0, 58))
		}},
		{name: "one checked too late, in a record of before", want: Pass, story: func() *story {
			return removed().at(59).part("lease of kube-scheduler", time.Second).part(record.PartRequests, 46*time.Second)
		}},
		{name: "two not", want: Fail, says: "not steady again: dead addresses in default/kubernetes (not within 43.8s, checked for 50s: 10.9.9.9); connections between nodes", story: func() *story {
			return removed().at(59).part(record.PartUnlisted, 50*time.Second, "10.9.9.9").part("lease of kube-scheduler", time.Second).part(record.PartConnections, time.Minute, "node-1 to node-2")
		}},
	})
}

// backsOff is a cluster that is steady again after a time, where connections may back off for 27 s.
func backsOff(took time.Duration) *story {
	return removed().change(func(r *record.Run) {
		r.Steadies[1].V.Took, r.Steadies[1].V.Unbounded = took, 27*time.Second
	})
}

// A violated invariant fails its own row and no other, and so does one without a result.
// TestSteadyAfterFailedInjection: what a failed injection may have left is not the cluster's doing.
func TestSteadyAfterFailedInjection(t *testing.T) {
	uninjected := func() *story {
		return removed().change(func(r *record.Run) {
			r.Faults = r.Faults[:1]
			r.Faults[0].V.Phase, r.Faults[0].V.Error = record.FaultFailed, "no answer"
		})
	}
	wide(t, "steady-state", []ruling{
		{name: "back", want: Pass, story: uninjected},
		{name: "not back, of a fault that touched nothing", want: Fail, says: "Everything must be back to its steady state", story: func() *story {
			return uninjected().change(func(r *record.Run) {
				r.Faults[0].V.Untouched = true
				for i := range r.Steadies {
					if s := &r.Steadies[i].V; s.Phase == "after" {
						s.OK, s.Problems = false, []string{"etcd has no leader"}
					}
				}
			})
		}},
		{name: "not back", want: Inconclusive, says: `the injection of fault "kill" failed, and parts of it may have been active: no answer`, story: func() *story {
			return uninjected().change(func(r *record.Run) {
				r.Steadies[1].V = record.Steady{Phase: "after", Took: 20 * time.Second, Limit: 20 * time.Second, Problems: []string{"node-2: no leader"}}
			})
		}},
	})
}

// Evidence starts with what a starved harness has measured, however much follows.
func TestStarvedShowsWhatWasMeasured(t *testing.T) {
	shown := tooLate().run
	c := &evaluator{run: shown}
	f := judges.Failed("late").Took(40*time.Second).Rests(sec(10), sec(40))
	shown.Harness[30].V.Late = time.Minute
	for i := range judges.EvidenceLimit + 2 {
		f = f.Shows(strconv.Itoa(i))
	}
	if f = c.downgrade(f, nil); f.Verdict != Inconclusive || f.Evidence[0] != "measured despite that: late" {
		t.Errorf("%s: %q", f.Verdict, f.Evidence)
	}
}

func TestEmptyRecord(t *testing.T) {
	// Nothing in it, all judges named: none passes, none fails, none panics.
	for _, complete := range []bool{false, true} {
		run := &record.Run{Complete: complete}
		for _, d := range Docs() {
			run.Meta.Checks = append(run.Meta.Checks, record.Check{Requirement: d.Name, Level: "MUST", Judge: d.Name, Bound: "1s", Fault: "f"},
				record.Check{Requirement: d.Name, Level: "MUST", Judge: d.Name})
		}
		for _, r := range Evaluate(run) {
			// If nothing was attempted, an invariant was not tested; what a run lacks that stopped
			// early is not the harness's load.
			idle := r.Verdict == NotApplicable && (strings.HasPrefix(r.Requirement, "HA-INV-") || !complete && r.Requirement == "RUN/harness")
			if r.Verdict != Inconclusive && !idle {
				t.Errorf("%s: %s, %s", r.Requirement, r.Verdict, r.Sentence)
			}
		}
	}
}

// With a baseline and a proven fault but no observations, no judge can conclude anything either.
func TestNothingObserved(t *testing.T) {
	s := newStory().fault("f", "kill", "node-2", "kube-scheduler", 10, 50)
	for _, name := range Names() {
		s.run.Meta.Checks = append(s.run.Meta.Checks, record.Check{Requirement: name, Level: "MUST", Judge: name, Bound: "M", Fault: "f"})
	}
	for _, r := range Evaluate(s.run)[:len(Names())] {
		// The story has the steady state, but no fault domains and add-on managers.
		if r.Verdict != Inconclusive && r.Judge != "steady-state" && r.Judge != "fault-domains" && r.Judge != "addons-converge" {
			t.Errorf("%s: %s, %s", r.Requirement, r.Verdict, r.Sentence)
		}
	}
}

// A bound that is broken by more than an overloaded machine can explain is broken.
