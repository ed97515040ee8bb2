package reports

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestHeadline(t *testing.T) {
	of := func(verdicts ...judge.Verdict) *Results {
		var results []judge.Result
		for i, v := range verdicts {
			results = append(results, judge.Result{Requirement: "HA-EP-00" + string(rune('1'+i)), Level: "MUST", Scenario: "s", Verdict: v})
		}
		return New(fixtureRun(), results, nil)
	}
	const P, F, I, N = judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable
	for want, r := range map[string]*Results{
		"All 2 requirements passed.":                                                                               of(P, P),
		"All requirements that apply passed: 1 of 2.":                                                              of(P, N),
		"No requirement failed, and 1 of 2 is inconclusive.":                                                       of(P, I),
		"2 of 3 requirements failed: HA-EP-001, HA-EP-003.":                                                        of(F, P, F),
		"7 of 7 requirements failed: HA-EP-001, HA-EP-002, HA-EP-003, HA-EP-004, HA-EP-005, HA-EP-006 and 1 more.": of(F, F, F, F, F, F, F),
		"None of the requirements apply to this cluster.":                                                          of(N),
		"Nothing was judged.":                                                                                      of(),
	} {
		if got := r.Headline(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReproduce(t *testing.T) {
	for want, command := range map[string][]string{
		"holdfast run --profile core --seed 42":      {"/x/bin/holdfast", "run", "--profile", "core", "--out", "results/x"},
		"holdfast run --seed 42":                     {"holdfast", "run", "--out=x", "--seed", "42"},
		"holdfast run --scenario 'etcd-*' --seed 42": {"holdfast", "run", "--scenario", "etcd-*"},
		"": nil,
	} {
		if got := reproduce(Run{Command: command, Seed: 42}); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

func TestProse(t *testing.T) {
	if got := prose("the `kubernetes` service <b> of `a < b`"); got != "the <code>kubernetes</code> service &lt;b&gt; of <code>a &lt; b</code>" {
		t.Error(got)
	}
	if got := prose("one ` alone"); got != "one ` alone" {
		t.Error(got)
	}
}

func TestUnbroken(t *testing.T) {
	if got, want := unbroken("etcd --a-b=<c> x"), `etcd <span class="word">--a-b=&lt;c&gt;</span> x`; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Areas with failures come first, and in each the worst requirement.
func TestGroupsOf(t *testing.T) {
	results := []judge.Result{
		{Requirement: "HA-CL-003", Level: "MUST", Scenario: "s", Verdict: judge.Pass},
		{Requirement: "HA-EP-001", Level: "MUST", Scenario: "s", Verdict: judge.Pass},
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "s", Verdict: judge.Fail, Sentence: "late", Evidence: []string{"line 7"}},
		{Requirement: "MINE", Level: "MUST", Scenario: "s", Verdict: judge.Pass},
	}
	var got []string
	in := input{Results: New(fixtureRun(), results, nil)}
	groups := groupsOf(in, in.Requirements)
	for _, g := range groups {
		got = append(got, g.Name+":")
		for _, r := range g.Rows {
			got = append(got, r.ID)
		}
	}
	want := "The default kubernetes service: HA-EP-003 HA-EP-001 Clients and load balancing: HA-CL-003 Others: MINE"
	if strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if e := groups[0].Rows[0].Evidence; len(e) != 1 || e[0] != "line 7" {
		t.Errorf("evidence %q", e)
	}
}

// A row opens to the evidence and the timeline of the scenario that decided; the others are named.
func TestRowsNameWhatDecided(t *testing.T) {
	results := []judge.Result{
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "a", Verdict: judge.Pass},
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "b", Verdict: judge.Fail, Sentence: "late", Evidence: []string{"line 7"}},
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "c", Verdict: judge.Pass},
		{Requirement: "HA-EP-004", Level: "MUST", Scenario: "a", Verdict: judge.Pass},
	}
	for _, test := range []struct {
		records       map[string]*record.Run
		first, second string
	}{
		{map[string]*record.Run{"a": {}, "b": {}, "c": {}}, "evidence and timeline", "timeline"},
		{map[string]*record.Run{"a": {}, "b": nil}, "evidence", "timeline"},
		{nil, "evidence", ""},
	} {
		in := input{New(fixtureRun(), results, nil), test.records, ""}
		rows := groupsOf(in, in.Requirements)[0].Rows
		if rows[0].DecidedBy != "b" || strings.Join(rows[0].Others, " ") != "a c" || len(rows[1].Others) != 0 {
			t.Errorf("%+v", rows)
		}
		if rows[0].Opens() != test.first || rows[1].Opens() != test.second {
			t.Errorf("%v: the rows open to %q and %q", test.records, rows[0].Opens(), rows[1].Opens())
		}
	}
}
