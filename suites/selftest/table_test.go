package selftest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestTable looks for plants that would do nothing.
func TestTable(t *testing.T) {
	names, planted := map[string]bool{}, map[string]bool{}
	for _, p := range Plants() {
		if names[p.Name] || p.Name == "" || p.Violation == "" || len(p.Catches) == 0 {
			t.Errorf("plant %q: its name is another's too, or something is missing", p.Name)
		}
		names[p.Name] = true
		kind, ok := kinds()[p.Cluster]
		if !ok || len(p.Tamper) > 0 && !kind.tamper {
			t.Errorf("plant %s: no kind of cluster %q, or none with proxies", p.Name, p.Cluster)
		}
		if p.Cluster == proxied && len(p.Tamper) == 0 && p.Stop == 0 && p.Do == nil {
			t.Errorf("plant %s plants nothing", p.Name)
		}
		s, err := scenario(p.Scenario)
		if err != nil {
			t.Errorf("plant %s: %v", p.Name, err)
			continue
		}
		if problems := s.Experiment().Validate(engine.Options{}); len(problems) > 0 {
			t.Errorf("scenario %s: %v", p.Scenario, problems)
		}
		if steps := len(s.Spec.Timeline); p.From > steps || p.Until > steps || p.Until > 0 && p.Until <= p.From {
			t.Errorf("plant %s: active from step %d to %d, and there are %d", p.Name, p.From, p.Until, steps)
		}
		for _, c := range p.Catches {
			planted[c.subject()] = true
		}
	}
	for _, p := range Plants() {
		for _, name := range p.May {
			isJudge := slices.ContainsFunc(judge.Docs(), func(d judge.Doc) bool { return d.Name == name })
			if !isJudge && !slices.ContainsFunc(subjects(), func(r Row) bool { return r.Requirement == name }) {
				t.Errorf("plant %s: there is no judge and no requirement %s that may find it", p.Name, name)
			}
		}
	}
	for _, s := range subjects() {
		if !planted[s.Subject()] {
			t.Errorf("nothing is planted for %s", s.Subject())
		}
	}
}

func TestPlan(t *testing.T) {
	if _, err := Plan([]string{"none"}); err == nil {
		t.Error("a judge that does not exist was taken")
	}
	work, err := Plan([]string{"list-snapshot", "endpoint-removed"})
	if err != nil {
		t.Fatal(err)
	}
	var units []string
	for _, b := range work {
		for _, u := range b.Units {
			units = append(units, b.Cluster+": "+u.String())
		}
	}
	want := []string{"counted: fixed-count", "proxied: healthy apiserver-killed", "proxied: healthy traffic", "proxied: torn-pages"}
	if !slices.Equal(units, want) {
		t.Errorf("%q, want %q", units, want)
	}
}

// TestInvariants shows that the name of an invariant selects the judges that settle it.
func TestInvariants(t *testing.T) {
	rows, err := Rows([]string{"HA-INV-004"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Requirement != "HA-INV-004" || !slices.Contains([]string{"list-semantics", "list-snapshot"}, r.Judge) || r.Plant == "" {
			t.Errorf("%+v", r)
		}
	}
	settled := map[string]bool{}
	for _, s := range subjects() {
		if s.Judge != "" {
			settled[s.Requirement] = true
		}
	}
	for _, r := range scenarios.Requirements() {
		if r.Invariant() && !settled[r.ID] {
			t.Errorf("no judge settles %s", r.ID)
		}
	}
	if len(rows) < 2 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestLeft removes settled work, and shows the twins of the rest.
func TestLeft(t *testing.T) {
	unit := func(plant, cluster string) Unit {
		return Unit{Plant: plant, Cluster: cluster, Scenario: "s", Subjects: []string{"j", "k"}}
	}
	work := []Batch{{Cluster: blind, Units: []Unit{unit("a", blind)}},
		{Cluster: proxied, Units: []Unit{unit("", proxied), unit("b", proxied), unit("c", proxied)}}}
	fewer := unit("c", proxied)
	fewer.Subjects = fewer.Subjects[:1]
	got := Left(work, []Outcome{{Unit: unit("a", blind)}, {Unit: unit("", proxied), Unclear: true}, {Unit: unit("b", blind)},
		{Unit: unit("b", proxied)}, {Unit: fewer}})
	want := []Batch{{Cluster: proxied, Units: []Unit{unit("", proxied), unit("c", proxied)}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("left: %+v, want %+v", got, want)
	}
	want = []Batch{{Cluster: proxied, Units: []Unit{unit("", proxied), unit("c", proxied)}, Once: true},
		{Cluster: blind, Units: []Unit{unit("a", blind)}, Once: true}, {Cluster: proxied, Units: []Unit{unit("b", proxied)}, Once: true}}
	if got := Shared(work, 2); !reflect.DeepEqual(got, want) {
		t.Errorf("shared: %+v, want %+v", got, want)
	}
}

// TestShared shows which plants can be settled beside other clusters.
func TestShared(t *testing.T) {
	p := Plant{Tamper: []Tampering{{}}, Catches: []Catch{{Judge: "j", Says: "lost"}, {Requirement: "HA-QR-001"}, {Judge: "not asked"}}}
	results := func(j, requirement judge.Verdict) []judge.Result {
		return []judge.Result{{Judge: "j", Verdict: j, Sentence: "It was lost."}, {Requirement: "HA-QR-001", Verdict: requirement}}
	}
	subjects := []string{"j", "HA-QR-001"}
	for what, test := range map[string]struct {
		o    Outcome
		want bool
	}{
		"both found":        {Outcome{Results: results(judge.Fail, judge.Fail), Acted: 1}, true},
		"one found":         {Outcome{Results: results(judge.Fail, judge.Pass), Acted: 1}, false},
		"one inconclusive":  {Outcome{Results: results(judge.Inconclusive, judge.Fail), Acted: 1}, false},
		"one has no result": {Outcome{Results: results(judge.Fail, judge.Fail)[:1], Acted: 1}, false},
		"nothing acted":     {Outcome{Results: results(judge.Fail, judge.Fail)}, false},
		"more failed":       {Outcome{Results: results(judge.Fail, judge.Fail), Acted: 1, Surplus: []judge.Result{{}}}, false},
		"it ended early":    {Outcome{Problem: "no cluster", Acted: 1}, false},
		"in other words":    {Outcome{Results: []judge.Result{{Judge: "j", Verdict: judge.Fail, Sentence: "Late."}, {Requirement: "HA-QR-001", Verdict: judge.Fail}}, Acted: 1}, false},
	} {
		t.Run(what, func(t *testing.T) {
			test.o.Unit.Subjects = subjects
			if got := test.o.caught(p); got != test.want {
				t.Errorf("caught: %t, want %t", got, test.want)
			}
		})
	}
}

func TestRows(t *testing.T) {
	const name, says = "takeover", "A standby must take over: none did."
	result := func(v judge.Verdict, sentence string) []judge.Result {
		return []judge.Result{{Judge: "other", Verdict: judge.Fail}, {Judge: name, Verdict: v, Sentence: sentence}}
	}
	planted := func(v judge.Verdict, sentence string, acted int) Outcome {
		return Outcome{Unit: Unit{Plant: "no-takeover", Scenario: "controller-manager-killed"}, Results: result(v, sentence), Acted: acted, Tries: 1}
	}
	healthy := func(v judge.Verdict) Outcome {
		return Outcome{Unit: Unit{Cluster: proxied, Scenario: "controller-manager-killed"}, Results: result(v, "It held."), Tries: 1}
	}
	for what, test := range map[string]struct {
		outcomes []Outcome
		want     State
	}{
		"caught":                           {[]Outcome{healthy(judge.Pass), planted(judge.Fail, says, 1)}, Caught},
		"two checks, one fails":            {[]Outcome{{Unit: healthy("").Unit, Results: append(result(judge.Pass, ""), result(judge.Fail, "")...)}, planted(judge.Fail, says, 1)}, FalsePositive},
		"missed":                           {[]Outcome{healthy(judge.Pass), planted(judge.Pass, "It held.", 1)}, Missed},
		"failed for another reason":        {[]Outcome{healthy(judge.Pass), planted(judge.Fail, "There were two holders.", 1)}, Missed},
		"caught by a second check":         {[]Outcome{healthy(judge.Pass), {Unit: planted("", "", 1).Unit, Results: append(result(judge.Fail, "It took long."), result(judge.Fail, says)...), Acted: 1}}, Caught},
		"false positive":                   {[]Outcome{healthy(judge.Fail), planted(judge.Fail, says, 1)}, FalsePositive},
		"false positive, and plant broken": {[]Outcome{healthy(judge.Fail), {Unit: Unit{Plant: "no-takeover"}, Problem: "no cluster"}}, FalsePositive},
		"never acted":                      {[]Outcome{healthy(judge.Pass), planted(judge.Fail, says, 0)}, Unclear},
		"planted inconclusive":             {[]Outcome{healthy(judge.Pass), planted(judge.Inconclusive, "Overloaded.", 1)}, Unclear},
		"healthy inconclusive":             {[]Outcome{healthy(judge.Inconclusive), planted(judge.Fail, says, 1)}, Unclear},
		"healthy not applicable":           {[]Outcome{healthy(judge.NotApplicable), planted(judge.Fail, says, 1)}, Unclear},
		"twin of another cluster":          {[]Outcome{{Unit: Unit{Cluster: drains, Scenario: "controller-manager-killed"}, Results: result(judge.Pass, "")}, planted(judge.Fail, says, 1)}, Unclear},
		"no healthy twin":                  {[]Outcome{planted(judge.Fail, says, 1)}, Unclear},
		"nothing run":                      {nil, Unclear},
		"planted run ended early":          {[]Outcome{healthy(judge.Pass), {Unit: Unit{Plant: "no-takeover"}, Problem: "no cluster"}}, Unclear},
		"the judge was left unheard":       {[]Outcome{healthy(judge.Pass), {Unit: Unit{Plant: "no-takeover"}, Acted: 1}}, Unclear},
	} {
		t.Run(what, func(t *testing.T) {
			rows, err := Rows([]string{name}, test.outcomes)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%v, %v", rows, err)
			}
			if rows[0].State != test.want || (rows[0].Why == "") != (test.want == Caught) {
				t.Errorf("%s (%s), want %s", rows[0].State, rows[0].Why, test.want)
			}
		})
	}
}
