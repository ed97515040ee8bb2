package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// A violation that nothing can explain counts in a run that was interrupted, too; what a
// record that was cut short seems to show does not.
func TestInterrupted(t *testing.T) {
	stale := func() *story { return two().read("b", "k", "v1", 1, 30, 31) }
	for _, tt := range []struct {
		name   string
		change func(*record.Run)
		want   Verdict
	}{
		{"whole", func(*record.Run) {}, Fail},
		{"interrupted", func(r *record.Run) { r.End.Error = "interrupted: context canceled" }, Fail},
		{"cut short", func(r *record.Run) { r.Complete, r.Problem = false, "line 9: no end" }, Inconclusive},
		{"interrupted, without a violation", func(r *record.Run) { r.Ops, r.End.Error = r.Ops[:2], "interrupted" }, Inconclusive},
	} {
		s := stale().change(tt.change)
		found := 0
		for _, r := range Evaluate(s.run) {
			switch r.Judge {
			case "linearizable":
				found++
				if r.Verdict != tt.want || tt.want == Fail && !strings.Contains(r.Sentence, "must be linearizable") {
					t.Errorf("%s: %s (want %s): %s", tt.name, r.Verdict, tt.want, r.Sentence)
				}
			case "steady-state":
				found++
				if tt.name != "whole" && r.Verdict == Pass {
					t.Errorf("%s: the steady state passes", tt.name)
				}
			case "harness": // which was not overloaded, and cost no verdict
				found++
				if want := map[bool]Verdict{true: Pass, false: NotApplicable}[tt.name == "whole"]; r.Verdict != want {
					t.Errorf("%s: the harness: %s (want %s): %s", tt.name, r.Verdict, want, r.Sentence)
				}
			}
		}
		if found != 3 {
			t.Errorf("%s: %d of 3 verdicts", tt.name, found)
		}
	}
}

// A scenario's own check fails as well in a run that was interrupted, if what it found is proven
// up to there. A measured time is not: what would have come later may have been in time.
func TestInterruptedChecks(t *testing.T) {
	winner := record.Check{Requirement: "HA-QR-015", Judge: "one-winner", Params: map[string]string{"contended": "1"}}
	member := record.Check{Requirement: "HA-QR-002", Judge: "isolated-member", Fault: "cut", Bound: "2E + M"}
	quorum := record.Check{Requirement: "HA-QR-009", Judge: "quorum-loss", Fault: "b", Bound: "2E + M", Params: map[string]string{"faults": "a, b"}}
	stale := record.Check{Requirement: "HA-QR-006", Judge: "no-stale-read", Fault: "cut", Bound: "2E"}
	twice := func() *story {
		return newStory().write(create, "node-1", "k", "v1", 1, 1, 2).write(update, "node-1", "k", "v2", 2, 3, 4).over(1).write(update, "node-2", "k", "v3", 3, 3.5, 5).over(1)
	}
	acknowledged := func() *story { return isolated().write(create, "node-2", "new", "x", 251, 15, 15.1) }
	old := func() *story {
		return isolated().write(create, "node-1", "k", "old", 151, 5, 6).write(update, "node-1", "k", "new", 251, 15, 16).read("node-2", "k", "old", 151, 20, 21)
	}
	stopped := func() *story {
		s := leaders(newStory()).fault("cut", "isolate", "node-2", "", 10, 30).failing("node-2", 10.1, 29).failing("node-1", 10.1, 20)
		return s.traffic("node-1", 19.99, 40).traffic("node-3", 10, 40)
	}
	for _, tt := range []struct {
		name  string
		check record.Check
		story func() *story
		says  string // if it counts in a run that was interrupted
	}{
		{"two winners", winner, twice, "2 writes replacing version 1 of k succeeded"},
		{"a write through an isolated member", member, acknowledged, "must acknowledge no write"},
		{"a stale read through an isolated member", member, old, "No quorum read may be stale"},
		{"a stale read", stale, old, "No quorum read may be stale"},
		{"a write without a quorum", quorum, func() *story { return lost().write(create, "node-3", "new", "x", 181, 18, 18.1) }, "no write may be acknowledged"},
		{"no write was acknowledged for too long", member, stopped, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			judged := func(change func(*record.Run)) Result {
				tt.check.Level = "MUST"
				s := tt.story().change(change)
				s.run.Meta.Checks = []record.Check{tt.check}
				return Evaluate(s.run)[0]
			}
			interrupted := Fail
			if tt.says == "" {
				interrupted = Inconclusive
			}
			for _, c := range []struct {
				name   string
				change func(*record.Run)
				want   Verdict
			}{
				{"whole", func(*record.Run) {}, Fail},
				{"interrupted", func(r *record.Run) { r.End.Error = "interrupted" }, interrupted},
				{"interrupted, and not healed", func(r *record.Run) {
					r.End.Error = "interrupted"
					for i := range r.Faults {
						r.Faults[i].V.Proven = r.Faults[i].V.Phase == record.FaultInjected
					}
				}, map[bool]Verdict{true: interrupted, false: Inconclusive}[tt.check.Fault == ""]},
				{"interrupted, on a cluster that was broken before", func(r *record.Run) { r.End.Error, r.Steadies[0].V.OK = "interrupted", false }, Inconclusive},
				{"cut short", func(r *record.Run) { r.Complete, r.Problem = false, "line 9: no end" }, Inconclusive},
			} {
				r := judged(c.change)
				if r.Verdict != c.want || r.Verdict == Fail && !strings.Contains(r.Sentence, tt.says) {
					t.Errorf("%s: %s (want %s): %s", c.name, r.Verdict, c.want, r.Sentence)
				}
			}
		})
	}
	for name, s := range map[string]*story{"an isolation that harms none": isolated(), "a check that is unknown": newStory()} {
		s.run.Meta.Checks, s.run.End.Error = []record.Check{member}, "interrupted"
		s.run.Meta.Checks[0].Level = "MUST"
		if strings.Contains(name, "unknown") {
			s.run.Meta.Checks[0].Judge = "none"
		}
		if r := Evaluate(s.run)[0]; r.Verdict != Inconclusive || !strings.Contains(r.Sentence, "the run stopped early") {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Sentence)
		}
	}
}
