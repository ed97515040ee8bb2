package certify

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
)

// Cases in which a row holds, and in which it does not.
func TestRowOf(t *testing.T) {
	base := Scenarios([]string{"HA-QR-005"}, Breaking)[0] // etcd-leader-killed
	turn := func(victim int, verdict judge.Verdict, hit ...string) experiment {
		return experiment{base.InTurn(victim, 3), []judge.Result{{Requirement: "HA-QR-005", Level: "MUST", Scenario: "x", Verdict: verdict, Sentence: "as it was"}}, hit}
	}
	excused := func(victim int) experiment { // it ran, and the plan calls it inapplicable by design
		e := turn(victim, judge.NotApplicable)
		e.scenario.ByDesign = true
		return e
	}
	away := func(byDesign bool) experiment {
		s := *base
		s.Missing, s.ByDesign = "x", byDesign
		return experiment{&s, []judge.Result{{Requirement: "HA-QR-005", Level: "MUST", Verdict: judge.NotApplicable, Sentence: "away"}}, nil}
	}
	nodes := []string{"node-1", "node-2", "node-3"}
	for name, test := range map[string]struct {
		all      []experiment
		verdict  judge.Verdict
		holds    bool
		sentence string
	}{
		"each node in turn": {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Pass, true, "as it was"},
		"one failed":        {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Fail, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Fail, false, "as it was"},
		"one inconclusive":  {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Inconclusive, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Inconclusive, false, "as it was"},
		"one node twice":    {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-1"), turn(3, judge.Pass, "node-3")}, judge.Inconclusive, false, "no experiment of etcd-leader-killed hit node-2"},
		"two experiments":   {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-2", "node-3")}, judge.Inconclusive, false, "2 of at least 3"},
		"one did not apply": {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.NotApplicable), turn(3, judge.Pass, "node-2", "node-3")}, judge.Inconclusive, false, "2 of at least 3"},
		"cannot be tested":  {[]experiment{away(false)}, judge.NotApplicable, false, "away"},
		"by design":         {[]experiment{away(true)}, judge.NotApplicable, true, "away"},
		"excused":           {[]experiment{excused(1), excused(2), excused(3)}, judge.NotApplicable, false, "as it was"},
		"none":              {nil, judge.Inconclusive, false, "no experiment"},
	} {
		r := rowOf("HA-QR-005", test.all, nodes, 3)
		if r.Verdict != test.verdict || r.holds() != test.holds || !strings.Contains(r.Sentence, test.sentence) {
			t.Errorf("%s: %+v, want %s, holds %v, %q", name, r, test.verdict, test.holds, test.sentence)
		}
	}
}

// The conformance profile needs each invariant, also one that no experiment could test, for example
// without audit logs.
func TestInvariantsOfConformance(t *testing.T) {
	for class, want := range map[string]bool{"conformance": true, "partial": false} {
		if got := slices.Contains(withInvariants(Required(), class, nil), "HA-INV-008"); got != want {
			t.Errorf("%s: HA-INV-008 is a row: %v", class, got)
		}
	}
	unseen := []experiment{{newCertification(t, "HA-QR-005").plan.Scenarios[0], []judge.Result{{Requirement: "HA-INV-008", Level: "MUST", Verdict: judge.NotApplicable, Sentence: "There are no audit logs."}}, nil}}
	if r := rowOf("HA-INV-008", unseen, nil, 3); r.holds() || r.Verdict != judge.Inconclusive {
		t.Errorf("%+v", r)
	}
}

// An invariant violated in one experiment certifies nothing, whichever row the certificate
// covers; one that an overloaded machine left inconclusive in one of many does no harm if it passed
// in another one of the same scenario.
func TestInvariants(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	all := func(verdicts ...judge.Verdict) (list []experiment) {
		for i, verdict := range verdicts {
			list = append(list, experiment{c.plan.Scenarios[i], []judge.Result{{Requirement: "HA-INV-002", Level: "MUST", Verdict: verdict, Sentence: "It was " + string(verdict) + "."}}, nil})
		}
		return list
	}
	for name, test := range map[string]struct {
		all      []experiment
		want     judge.Verdict
		sentence string
	}{
		"kept":        {all(judge.Pass, judge.Pass, judge.Pass), judge.Pass, "It was pass."},
		"violated":    {all(judge.Pass, judge.Pass, judge.Pass, judge.Fail), judge.Fail, "It was fail."},
		"hidden once": {all(judge.Pass, judge.Pass, judge.Inconclusive, judge.Pass), judge.Pass, "It was pass. Inconclusive in 1 of 4 experiments."},
		"hidden in a scenario": {all(judge.Inconclusive, judge.Inconclusive, judge.Inconclusive, judge.Pass, judge.Pass, judge.Pass), judge.Inconclusive,
			"HA-INV-002 was inconclusive in every experiment of " + c.plan.Scenarios[0].Of + ": It was inconclusive."},
		"without data in a scenario": {all(judge.NotApplicable, judge.NotApplicable, judge.NotApplicable, judge.Pass, judge.Pass, judge.Pass), judge.Pass, "It was pass."},
		"hardly seen": {all(judge.Pass, judge.Inconclusive, judge.NotApplicable), judge.Inconclusive,
			"HA-INV-002 passed in 1 of at least 3 experiments: It was inconclusive."},
		"nothing seen": {all(judge.NotApplicable, judge.NotApplicable), "", ""},
	} {
		o := outcome(c.plan, test.all)
		i := slices.IndexFunc(o.Rows, func(r Row) bool { return r.ID == "HA-INV-002" })
		if got := judge.Verdict(""); i >= 0 || test.want != "" {
			if i >= 0 {
				got = o.Rows[i].Verdict
			}
			if got != test.want || o.Certified {
				t.Errorf("%s: %q, certified %v, want %q", name, got, o.Certified, test.want)
			}
			if i < 0 {
				continue
			}
			if got := o.Rows[i].Sentence; got != test.sentence {
				t.Errorf("%s: %q, want %q", name, got, test.sentence)
			}
		}
	}
}

// Rows that do not apply because of the cluster's design were not tested: with no other row the outcome is
// not a certificate, and the test result does not list them as passed.
func TestNothingTested(t *testing.T) {
	c := newCertification(t, "HA-QR-005", "HA-LE-002")
	all := func(verdicts map[string]judge.Verdict) (list []experiment) {
		for _, s := range c.plan.Scenarios {
			one := *s
			var results []judge.Result
			for _, r := range s.Spec.Requirements {
				if v := verdicts[r.ID]; v != "" {
					results = append(results, judge.Result{Requirement: r.ID, Level: "MUST", Scenario: s.Metadata.Name, Verdict: v, Sentence: "seen"})
				}
				if verdicts[r.ID] == judge.NotApplicable {
					one.Missing, one.ByDesign = "it is made in another way", true
				}
			}
			list = append(list, experiment{&one, results, nodesOf(c.plan)})
		}
		return list
	}
	for name, test := range map[string]struct {
		le, qr    judge.Verdict
		certified bool
		code      int
		result    testResult
	}{
		"one row does not apply":     {judge.NotApplicable, judge.Pass, true, reports.ExitPass, testResult{Result: "PASSED", PassedTests: []string{"HA-QR-005"}}},
		"neither row applies":        {judge.NotApplicable, judge.NotApplicable, false, reports.ExitInconclusive, testResult{Result: "WARNED"}},
		"both passed":                {judge.Pass, judge.Pass, true, reports.ExitPass, testResult{Result: "PASSED", PassedTests: []string{"HA-LE-002", "HA-QR-005"}}},
		"one failed, one is skipped": {judge.NotApplicable, judge.Fail, false, reports.ExitFail, testResult{Result: "FAILED", FailedTests: []string{"HA-QR-005"}}},
	} {
		o := outcome(c.plan, all(map[string]judge.Verdict{"HA-LE-002": test.le, "HA-QR-005": test.qr}))
		if o.Certified != test.certified || o.ExitCode() != test.code || strings.HasPrefix(o.Judgement, "certified") != test.certified ||
			strings.HasSuffix(o.Judgement, "none was tested") != (test.result.Result == "WARNED") {
			t.Errorf("%s: certified %v, exit code %d, %q; want %v, %d", name, o.Certified, o.ExitCode(), o.Judgement, test.certified, test.code)
		}
		got, want := summaryOf(o, theseRules()), test.result
		if got.Result != want.Result || !slices.Equal(got.PassedTests, want.PassedTests) || !slices.Equal(got.FailedTests, want.FailedTests) || len(got.WarnedTests) > 0 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// An observation certifies nothing, whatever its verdicts; requirements that cannot be tested
// without access to the nodes do not affect it.
func TestObservation(t *testing.T) {
	c := newCertificationOf(t, Observing, 0, Observed()...)
	all := func(of map[string]judge.Verdict) (list []experiment) {
		for _, s := range c.plan.Scenarios {
			var results []judge.Result
			for _, id := range Observed() {
				results = append(results, judge.Result{Requirement: id, Level: "MUST", Scenario: s.Metadata.Name, Verdict: cmp.Or(of[id], judge.Pass), Sentence: "seen"})
			}
			list = append(list, experiment{s, results, nil})
		}
		return list
	}
	for name, test := range map[string]struct {
		of   map[string]judge.Verdict
		code int
		says string
	}{
		"all passed":   {nil, reports.ExitPass, "observed, not a conformance certificate: of the rows that need no fault, " + strconv.Itoa(len(Observed())) + " pass"},
		"not testable": {map[string]judge.Verdict{"HA-TOP-001": judge.NotApplicable}, reports.ExitPass, "1 not applicable"},
		"failed":       {map[string]judge.Verdict{"HA-EP-001": judge.Fail}, reports.ExitFail, "1 fail"},
		"inconclusive": {map[string]judge.Verdict{"HA-EP-001": judge.Inconclusive}, reports.ExitInconclusive, "1 inconclusive"},
	} {
		o := outcome(c.plan, all(test.of))
		if o.Class != "observed" || o.Certified || o.ExitCode() != test.code || !strings.Contains(o.Judgement, test.says) {
			t.Errorf("%s: class %s, certified %v, exit code %d, %q; want %d, %q", name, o.Class, o.Certified, o.ExitCode(), o.Judgement, test.code, test.says)
		}
	}
}

// TestHit: kind names the nodes of each of its clusters after it; a node is the same victim by its
// place.
func TestHit(t *testing.T) {
	seen := &record.Run{Meta: record.Meta{Nodes: []record.Node{{Name: "c-1-control-plane"}, {Name: "c-1-control-plane2"}, {Name: "c-1-control-plane3"}}}}
	for _, f := range []record.Fault{
		{Phase: record.FaultInjected, Proven: true, Node: "c-1-control-plane2"},
		{Phase: record.FaultInjected, Proven: true, Nodes: []string{"c-1-control-plane3", "c-1-worker"}},
		{Phase: record.FaultInjected, Node: "c-1-control-plane"}, // without a proof
	} {
		seen.Faults = append(seen.Faults, record.Timed[record.Fault]{V: f})
	}
	planned := []string{"node-1", "node-2", "node-3"}
	if got := hit(seen, planned); !slices.Equal(got, []string{"c-1-worker", "node-2", "node-3"}) {
		t.Errorf("%q", got)
	}
	named := []string{"c-1-control-plane3", "c-1-control-plane2", "c-1-control-plane"}
	if got := hit(seen, named); !slices.Equal(got, []string{"c-1-control-plane2", "c-1-control-plane3", "c-1-worker"}) {
		t.Errorf("of a plan with these names: %q", got)
	}
	// A node that dies is a victim, one that joins or leaves is not.
	for _, n := range []record.NodeChange{
		{Phase: record.NodeLost, Node: record.Node{Name: "c-1-control-plane"}},
		{Phase: record.NodeAdded, Node: record.Node{Name: "c-1-control-plane4"}},
		{Phase: record.NodeRemoved, Node: record.Node{Name: "c-1-control-plane4"}},
	} {
		seen.Nodes = append(seen.Nodes, record.Timed[record.NodeChange]{V: n})
	}
	if got := hit(seen, planned); !slices.Equal(got, []string{"c-1-worker", "node-1", "node-2", "node-3"}) {
		t.Errorf("with a node that died: %q", got)
	}
}

// TestRenamedNodes: a record has the plan's nodes, or, of a cluster with names that only its provider
// knows, as many others.
func TestRenamedNodes(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	s := c.plan.Scenarios[0]
	version := c.plan.Part(s).Cluster.Spec.KubernetesVersion
	of := func(names ...string) record.Meta {
		m := record.Meta{Versions: map[string]map[string]string{}}
		for _, n := range names {
			m.Nodes = append(m.Nodes, record.Node{Name: n})
			m.Versions[n] = map[string]string{"kube-apiserver": version}
		}
		return m
	}
	for _, test := range []struct {
		provider string
		attach   bool
		planned  []string // nil if the plan does not name its nodes
		names    []string
		refused  bool
	}{
		{"local", false, nil, []string{"node-1", "node-2", "node-3"}, false},
		{"local", false, nil, []string{"a", "b", "c"}, true},
		{"kind", false, nil, []string{"a", "b", "c"}, false},
		{"kind", false, nil, []string{"a", "b"}, true},
		{"kind", false, nil, []string{"a", "node-2", "c"}, true},
		{"kind", false, []string{"x", "y", "z"}, []string{"a", "b", "c"}, false},
		{"kind", true, nil, []string{"a", "b", "c"}, false},
		{"kind", true, nil, []string{"a", "b"}, true},
		{"remote", true, []string{"x", "y", "z"}, []string{"x", "y", "z"}, false},
		{"remote", true, []string{"x", "y", "z"}, []string{"a", "b", "c"}, true},
	} {
		plan := *c.plan
		spec := *plan.Cluster
		spec.Spec.Nodes = slices.Clone(spec.Spec.Nodes)
		for i, name := range test.planned {
			spec.Spec.Nodes[i].Name = name
		}
		plan.Cluster, plan.Parts = &spec, nil
		plan.Provider, plan.Attach = test.provider, test.attach
		v := &verifier{plan: &plan, v: &Verification{}}
		v.cluster(s, of(test.names...))
		if refused := slices.ContainsFunc(v.v.Problems, func(p string) bool { return strings.Contains(p, "is from a cluster with nodes") }); refused != test.refused {
			t.Errorf("%+v: refused %t: %q", test, refused, v.v.Problems)
		}
	}
}
