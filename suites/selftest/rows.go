package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// State is the result for a judge with one planted violation.
type State string

const (
	// Caught: it found the planted violation, and the healthy twin passed.
	Caught State = "caught"
	// Missed: it did not find the violation.
	Missed State = "missed"
	// FalsePositive: it found a violation on the healthy twin.
	FalsePositive State = "false positive"
	// NoPlant: no violation is planted for it.
	NoPlant State = "no planted violation"
	// Unclear: the machine was too busy, or the plant did nothing.
	Unclear State = "unclear"
)

// Row is one line of the table: a guarantee and one violation of it. It is of a judge,
// with the invariant that it settles if it is one of every run, or of a requirement that
// scenarios name.
type Row struct {
	Judge       string `json:"judge,omitempty"`
	Requirement string `json:"requirement,omitempty"`
	Guarantee   string `json:"guarantee"`
	Plant       string `json:"plant,omitempty"`
	Violation   string `json:"violation,omitempty"`
	State       State  `json:"state"`
	// Why says what is wrong, where something is.
	Why string `json:"why,omitempty"`
	// Verdict and Sentence are the judge's on what was planted, Healthy and
	// HealthySentence on the healthy twin.
	Verdict         judge.Verdict `json:"verdict,omitempty"`
	Sentence        string        `json:"sentence,omitempty"`
	Healthy         judge.Verdict `json:"healthy,omitempty"`
	HealthySentence string        `json:"healthySentence,omitempty"`
	Took            time.Duration `json:"took,omitempty"` // of the run with the plant
	Tries           int           `json:"tries,omitempty"`
}

// Subject is the judge, or the requirement if the row is of one.
func (r Row) Subject() string { return cmp.Or(r.Judge, r.Requirement) }

// String names the subject, with the invariant that it settles.
func (r Row) String() string {
	if r.Judge != "" && r.Requirement != "" {
		return r.Requirement + " " + r.Judge
	}
	return r.Subject()
}

// Rows returns the table for these judges and requirements (all if none is named).
func Rows(names []string, outcomes []Outcome) ([]Row, error) {
	wanted, err := chosen(names)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, s := range subjects() {
		if !wanted[s.Subject()] {
			continue
		}
		n := len(rows)
		for _, p := range Plants() {
			if i := slices.IndexFunc(p.Catches, func(c Catch) bool { return c.subject() == s.Subject() }); i >= 0 {
				row := s
				row.Plant, row.Violation = p.Name, p.Violation
				row.settle(p, p.Catches[i], outcomes)
				rows = append(rows, row)
			}
		}
		if len(rows) == n {
			s.State, s.Why = NoPlant, "nothing shows that it can fail"
			rows = append(rows, s)
		}
	}
	return rows, nil
}

// settle decides on a row.
func (r *Row) settle(p Plant, c Catch, outcomes []Outcome) {
	planted, why := verdictOf(outcomes, c, func(u Unit) bool { return u.Plant == p.Name })
	healthy, healthyWhy := verdictOf(outcomes, c, func(u Unit) bool { return u.Plant == "" && u.Cluster == p.twin() && u.Scenario == p.Scenario })
	if planted != nil {
		r.Took, r.Tries = planted.took, planted.tries
		r.Verdict, r.Sentence = planted.Verdict, planted.Sentence
	}
	if healthy != nil {
		r.Healthy, r.HealthySentence = healthy.Verdict, healthy.Sentence
	}
	set := func(s State, format string, args ...any) { r.State, r.Why = s, fmt.Sprintf(format, args...) }
	switch {
	case healthy != nil && healthy.Verdict == judge.Fail:
		set(FalsePositive, "with nothing planted: %s", healthy.Sentence)
	case planted == nil:
		set(Unclear, "%s", why)
	case len(p.Tamper) > 0 && planted.acted == 0:
		set(Unclear, "the plant never acted: no proxy tampered with anything")
	case len(planted.surplus) > 0:
		set(Missed, "%s failed as well, which nothing was planted for: %s", planted.surplus[0].Requirement, planted.surplus[0].Sentence)
	case c.Found(planted.Result):
		switch {
		case healthy == nil:
			set(Unclear, "it was caught, but the healthy twin is unsettled: %s", healthyWhy)
		case healthy.Verdict != judge.Pass:
			set(Unclear, "it was caught, but the healthy twin does not pass: %s: %s", healthy.Verdict, healthy.Sentence)
		default:
			set(Caught, "")
		}
	case planted.Verdict == judge.Inconclusive:
		set(Unclear, "inconclusive in %d tries: %s", planted.tries, planted.Sentence)
	default:
		set(Missed, "want %s saying %q, got %s: %s", c.verdict(), c.Says, planted.Verdict, planted.Sentence)
	}
}

// ruling is a verdict with the run that it is on.
type ruling struct {
	judge.Result
	took         time.Duration
	tries, acted int
	surplus      []judge.Result
}

// verdictOf returns the verdict on the subject of c in the selected unit, or why it has none. If
// several checks gave a verdict, the worst counts; of equal ones, the one that c requires.
func verdictOf(outcomes []Outcome, c Catch, meant func(Unit) bool) (*ruling, string) {
	why := "it was not run"
	for _, o := range outcomes {
		if !meant(o.Unit) {
			continue
		}
		if o.Problem != "" {
			return nil, o.Problem
		}
		name := c.subject()
		why = "there is no verdict on " + name
		var worst *ruling
		order := []judge.Verdict{judge.NotApplicable, judge.Pass, judge.Inconclusive, judge.Fail}
		rank := func(r judge.Result) int {
			n := 2 * slices.Index(order, r.Verdict)
			if c.Found(r) {
				n++
			}
			return n
		}
		for _, r := range o.Results {
			if (r.Judge == name || r.Requirement == name) && (worst == nil || rank(r) > rank(worst.Result)) {
				worst = &ruling{r, o.Took, o.Tries, o.Acted, o.Surplus}
			}
		}
		if worst != nil {
			return worst, ""
		}
	}
	return nil, why
}
