package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// ownRemoval is a judge as users write them: it holds when the address of the fault's node
// was last listed.
var ownRemoval = Judge{
	Doc: Doc{Name: "own-removal", Guarantee: "An address goes within the bound.", NeedsFault: true, NeedsBound: true,
		Params: map[string]string{"through": "the entrance to read through (default node-1)"}},
	Evaluate: func(c *Case) Finding {
		through, last := c.Param("through", "node-1"), c.Fault.From()
		for _, e := range c.Run.Endpoints {
			if e.V.Via == through && e.At > last && slices.Contains(e.V.Addresses, "10.77.0.12") {
				last = e.At
			}
		}
		took := time.Duration(last - c.Fault.From())
		f := Finding{Verdict: Pass, Sentence: fmt.Sprintf("After the %s the address went within %s.", c.Fault, c.Bound), Took: took}
		if took > c.Bound.Limit {
			f.Verdict, f.From, f.To = Fail, c.Fault.From(), last
			f.Sentence = fmt.Sprintf("After the %s the address must go within %s: it was listed after %s.", c.Fault, c.Bound, took)
			f.Evidence = []string{fmt.Sprintf("healed %s", time.Duration(c.Fault.To()))}
		}
		return f
	},
}

// says is an own judge that returns a given finding.
func says(f Finding) Judge {
	return Judge{Doc: Doc{Name: "own"}, Evaluate: func(*Case) Finding { return f }}
}

// The common rules apply to users' own judges.
func TestOwnJudges(t *testing.T) {
	check := record.Check{Requirement: "OWN-1", Level: "MUST", Judge: "own-removal", Bound: "T + I + M", Fault: "kill"}
	change := func(c func(*record.Check)) record.Check {
		changed := check
		c(&changed)
		return changed
	}
	plain := record.Check{Requirement: "OWN-2", Level: "MUST", Judge: "own"}
	late := tooLate
	for _, tt := range []struct {
		name  string
		check record.Check
		story func() *story
		own   []Judge
		want  Verdict
		says  string
	}{
		{"kept", check, removed, []Judge{ownRemoval}, Pass, "After the kill of kube-apiserver on node-2 the address went within 27s (T + I + M"},
		{"broken", check, late, []Judge{ownRemoval}, Fail, "must go within 27s"},
		{"parameter", change(func(c *record.Check) { c.Params = map[string]string{"through": "node-3"} }), late, []Judge{ownRemoval}, Pass, "went within"},
		{"no bound", change(func(c *record.Check) { c.Bound = "" }), removed, []Judge{ownRemoval}, Inconclusive, "names no bound"},
		{"no fault", change(func(c *record.Check) { c.Fault = "" }), removed, []Judge{ownRemoval}, Inconclusive, "names no fault"},
		{"fault without proof", check, func() *story {
			return late().change(func(r *record.Run) { r.Faults[0].V.Proven = false })
		}, []Judge{ownRemoval}, Inconclusive, "had no proof of effect"},
		{"broken, information", change(func(c *record.Check) { c.Level = "INFO" }), late, []Judge{ownRemoval}, Inconclusive, "must go within 27s"},
		{"broken, harness starved", check, func() *story {
			return late().change(func(r *record.Run) { r.Harness[30].V.Late = time.Minute })
		}, []Judge{ownRemoval}, Inconclusive, "the harness was starved"},
		{"measured at an unknown time, harness starved", plain, func() *story {
			return removed().change(func(r *record.Run) { r.Harness[3].V.Late = time.Minute })
		}, []Judge{says(Finding{Verdict: Fail, Sentence: "slow", Took: time.Hour})}, Inconclusive, "the harness was starved"},
		{"no time measured, harness starved", plain, func() *story {
			return removed().change(func(r *record.Run) { r.Harness[3].V.Late = time.Minute })
		}, []Judge{says(Finding{Verdict: Fail, Sentence: "two of them", Measured: "2"})}, Fail, "two of them"},
		{"kept, not linearizable", check, func() *story {
			return removed().write(record.OpCreate, "node-1", "lost", "x", 1, 20, 21).read("node-3", "lost", "", 0, 52, 53)
		}, []Judge{ownRemoval}, Pass, "went within"}, // which is a verdict of its own
		{"not applicable", plain, removed, []Judge{says(Finding{Verdict: NotApplicable, Sentence: "no scheduler here"})}, NotApplicable, "no scheduler here"},
		{"not known", change(func(c *record.Check) { c.Judge = "own" }), removed, []Judge{ownRemoval}, Inconclusive, `"own" is not a judge: want one of active-again, `},
		{"among the known", plain, removed, []Judge{ownRemoval}, Inconclusive, "own-removal"},
		{"no verdict", plain, removed, []Judge{says(Finding{Sentence: "fine"})}, Inconclusive, `judge own returned the verdict "", which does not exist`},
		{"no sentence", plain, removed, []Judge{says(Finding{Verdict: Pass})}, Inconclusive, "judge own returned pass without a sentence"},
		{"no function", plain, removed, []Judge{{Doc: Doc{Name: "own"}}}, Inconclusive, "judge own has no Evaluate"},
		{"twice", plain, removed, []Judge{says(Finding{Verdict: Pass}), says(Finding{Verdict: Pass})}, Inconclusive, `two judges have the name "own"`},
		{"built in", record.Check{Judge: "availability"}, removed, []Judge{{Doc: Doc{Name: "availability"}}}, Inconclusive, `two judges have the name "availability"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.story()
			s.run.Meta.Checks = []record.Check{tt.check}
			r := Evaluate(s.run, tt.own...)[0]
			if r.Verdict != tt.want || !strings.Contains(r.Sentence, tt.says) || r.Judge != tt.check.Judge {
				t.Errorf("%+v, want %s: …%s…", r, tt.want, tt.says)
			}
		})
	}
}

// A user's own judge also judges a cluster that was broken before any fault, if it says that it is
// about the time before faults.
func TestOwnJudgeBeforeFaults(t *testing.T) {
	for before, want := range map[bool]Verdict{true: Fail, false: Inconclusive} {
		s := removed().change(func(r *record.Run) {
			r.Meta.Checks = []record.Check{{Requirement: "OWN-1", Level: "MUST", Judge: "own"}}
			r.Steadies[1].V = record.Steady{Phase: record.SteadyApplication, Problems: []string{"the application does not run after 1m0s"}}
		})
		own := says(Finding{Verdict: Fail, Sentence: "nothing came up"})
		own.BeforeFaults = before
		if r := Evaluate(s.run, own)[0]; r.Verdict != want {
			t.Errorf("before faults %v: %s, want %s: %s", before, r.Verdict, want, r.Sentence)
		}
	}
}

// The result has everything in a finding.
func TestOwnFinding(t *testing.T) {
	s := removed()
	s.run.Meta.Checks = []record.Check{{Requirement: "OWN-1", Judge: "own"}}
	exhibit := &Exhibit{Title: "how it went"}
	r := Evaluate(s.run, says(Finding{Verdict: Pass, Sentence: "good", Measured: "2 of 3", Took: time.Second, Evidence: []string{"a", "b"}, Exhibit: exhibit}))[0]
	if r.Verdict != Pass || r.Sentence != "good" || r.Measured != "2 of 3" || *r.MeasuredDuration != time.Second || !slices.Equal(r.Evidence, []string{"a", "b"}) || r.Exhibit != exhibit {
		t.Errorf("%+v", r)
	}
}

func TestFind(t *testing.T) {
	for _, name := range Names() {
		if d, err := Find(name); err != nil || d.Name != name {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if d, err := Find("own-removal", ownRemoval); err != nil || !d.NeedsBound {
		t.Error(d, err)
	}
	if _, err := Find("harness"); err == nil || !strings.Contains(err.Error(), `"harness" is not a judge: want one of active-again, `) {
		t.Error(err)
	}
	if names := Names(ownRemoval); !slices.Contains(names, "own-removal") || !slices.IsSorted(names) {
		t.Error(names)
	}
}
