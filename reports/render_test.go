package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// hostile is text that breaks every format that does not escape it.
const hostile = "<script>alert(1)</script> | \"q\" 'a' & `x` ]]> \x00\x1b \xff *b* \\ \n# EOF\n"

func hostileResults() []judge.Result {
	return []judge.Result{
		{Requirement: "HA-EP-001", Level: "MUST", Scenario: "api-server-killed", Judge: hostile, Verdict: judge.Fail,
			Bound:    &judge.Bound{Formula: hostile, Limit: time.Second, Inputs: map[string]time.Duration{"T": 1}},
			Measured: hostile, MeasuredDuration: dur(2), Sentence: hostile, Evidence: []string{hostile}},
		{Requirement: hostile, Level: "INFO", Scenario: hostile, Verdict: judge.Fail, Sentence: hostile},
	}
}

func TestHostileTextBreaksNothing(t *testing.T) {
	run := fixtureRun()
	run.ID, run.Provider, run.Problem, run.Command = hostile, hostile, hostile, []string{hostile}
	rec := apiServerKilled()
	rec.Problem = hostile
	rec.Meta.Nodes[0].Name = hostile
	rec.Faults[0].V.ID, rec.Faults[0].V.Proof = hostile, hostile
	rec.Phases[0].V.Name, rec.Probes[0].V.OK, rec.Probes[0].V.Error = hostile, false, hostile
	dir := t.TempDir()
	err := Write(dir, run, hostileResults(), map[string]*record.Run{"api-server-killed": rec, hostile: rec, "missing": nil}, map[string]string{"HA-EP-001": hostile})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err != nil {
		t.Error(err)
	}
	page := readFile(t, dir, "report.html")
	if strings.Contains(page, "<script>alert") {
		t.Error("report.html carries the script")
	}
	if strings.Count(page, "<script>") != 1 {
		t.Error("report.html has more scripts than its own")
	}
	if md := readFile(t, dir, "summary.md"); strings.Contains(md, "<script>") || regexp.MustCompile(`(?m)^# EOF`).MatchString(md) {
		t.Error("summary.md is broken by the text")
	}
	checkMetrics(t, readFile(t, dir, "metrics.prom"))
	var suites junitSuites
	if err := xml.Unmarshal([]byte(readFile(t, dir, "junit.xml")), &suites); err != nil {
		t.Errorf("junit.xml: %v", err)
	}
}

func TestReportNeedsNothingFromOutside(t *testing.T) {
	page, err := renderHTML(input{New(fixtureRun(), fixtureResults(), fixtureTitles()), fixtureRecords(), ""})
	if err != nil {
		t.Fatal(err)
	}
	page = bytes.Replace(page, []byte("https://github.com/leeoniya/uPlot"), nil, 1) // names the library, in a comment
	for _, pattern := range []string{`https?://`, `src=`, `@import`, `<link`, `<img`, `url\([^#]`, `ZgotmplZ`, `NaN`, `<no value>`} {
		if m := regexp.MustCompile(`.{0,40}` + pattern + `.{0,40}`).Find(page); m != nil {
			t.Errorf("report.html has %q", m)
		}
	}
}

func TestJUnitCounts(t *testing.T) {
	data, err := renderJUnit(input{New(fixtureRun(), fixtureResults(), nil), nil, ""})
	if err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(data, &suites); err != nil {
		t.Fatal(err)
	}
	s := suites.Suite
	if s.Tests != 11 || s.Failures != 1 || s.Errors != 2 || s.Skipped != 1 || len(s.Cases) != s.Tests {
		t.Errorf("tests %d, failures %d, errors %d, skipped %d, cases %d; want 11, 1, 2, 1, 11", s.Tests, s.Failures, s.Errors, s.Skipped, len(s.Cases))
	}
	for _, c := range s.Cases {
		properties := map[string]string{}
		for _, p := range c.Properties {
			properties[p.Name] = p.Value
		}
		if c.Name == "HA-CL-003" {
			want := map[string]string{"requirement": "HA-CL-003", "level": "MUST", "verdict": "fail", "bound": "H + M = 4s", "measured": "8.9s", "scenario": "api-server-killed"}
			if fmt.Sprint(properties) != fmt.Sprint(want) || c.Failure == nil {
				t.Errorf("properties %v, want %v, and a failure", properties, want)
			}
		}
	}
}

// A requirement that no scenario judged is one skipped case, with the reason of each scenario; the
// scenarios that had nothing for one that others judged have no case.
func TestJUnitSkipsOnce(t *testing.T) {
	var results []judge.Result
	for _, scenario := range []string{"one", "two", "three"} {
		for _, id := range []string{"HA-EP-001", "HA-EP-002"} {
			results = append(results, judge.Result{Requirement: id, Level: "MUST", Scenario: scenario, Judge: "j", Verdict: judge.NotApplicable, Sentence: "nothing of it in " + scenario})
		}
	}
	results[3].Verdict = judge.Pass // HA-EP-002 in two
	data, err := renderJUnit(input{New(fixtureRun(), results, nil), nil, ""})
	if err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(data, &suites); err != nil {
		t.Fatal(err)
	}
	s := suites.Suite
	if s.Tests != 2 || s.Skipped != 1 || len(s.Cases) != 2 {
		t.Fatalf("tests %d, skipped %d, cases %d; want 2, 1, 2:\n%s", s.Tests, s.Skipped, len(s.Cases), data)
	}
	skipped, passed := s.Cases[0], s.Cases[1]
	if skipped.Name != "HA-EP-001" || skipped.Skipped == nil || passed.Name != "HA-EP-002" || passed.Classname != "holdfast.two" || passed.Skipped != nil {
		t.Errorf("cases %+v, %+v", skipped, passed)
	}
	for _, scenario := range []string{"one", "two", "three"} {
		if !strings.Contains(skipped.Output, scenario+": not applicable (j): nothing of it in "+scenario+"\n") {
			t.Errorf("the skipped case lacks the reason of %s:\n%s", scenario, skipped.Output)
		}
	}
}

func TestMetricsAreOpenMetrics(t *testing.T) {
	data, err := renderMetrics(input{New(fixtureRun(), fixtureResults(), nil), fixtureRecords(), ""})
	if err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, string(data))
	for _, want := range []string{
		`holdfast_requirement_verdict{requirement="HA-CL-003",level="MUST",holdfast_requirement_verdict="fail"} 1`,
		`holdfast_requirement_measured_seconds{requirement="HA-EP-003",level="MUST"} 13.9`,
		`holdfast_requirement_bound_seconds{requirement="HA-EP-003",level="MUST"} 27`,
		`holdfast_probes{scenario="api-server-killed",entrance="node-2",connection="new",operation="read",outcome="failed"} 426`,
	} {
		if !strings.Contains(string(data), want+"\n") {
			t.Errorf("metrics.prom lacks %s", want)
		}
	}
}

var metricSample = regexp.MustCompile(`^([a-z_]+)(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.]+$`)

// checkMetrics checks text against the grammar: each family in one block, samples under their own
// family, no duplicate sample, EOF at the end and only there.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	body, ok := strings.CutSuffix(text, "# EOF\n")
	if !ok {
		t.Fatal("metrics.prom does not end with # EOF")
	}
	families, samples, family := map[string]bool{}, map[string]bool{}, ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if meta, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(meta, " ")
			if families[family] {
				t.Errorf("family %s stands twice", family)
			}
			families[family] = true
			continue
		}
		if strings.HasPrefix(line, "# UNIT "+family+" ") || strings.HasPrefix(line, "# HELP "+family+" ") {
			continue
		}
		m := metricSample.FindStringSubmatch(line)
		if m == nil || m[1] != family && m[1] != family+"_info" {
			t.Errorf("not a sample of %s: %q", family, line)
			continue
		}
		series := line[:strings.LastIndex(line, " ")]
		if samples[series] {
			t.Errorf("sample stands twice: %s", series)
		}
		samples[series] = true
	}
}

// longRecord has an observation every 20 ms, probes and operations in turn, and everything that can
// change does so constantly.
func longRecord(scenario string, observations int) *record.Run {
	run := &record.Run{Meta: fixtureMeta(scenario), Complete: true}
	for i := range observations {
		at := float64(i) / 50
		if i%2 == 0 {
			probe(run, at, "balancer", i/2%4, i/8%2 == 0)
		} else {
			op := record.Op{Client: "balancer/0", Entrance: "balancer", API: "kubernetes", Type: record.OpGet, Key: "r1", Outcome: record.OK,
				Call: sec(at), Return: sec(at + float64(i%997)/1e4)}
			if i/2%5 == 0 {
				op.Outcome, op.Error = record.Unknown, "EOF"
			}
			appendAt(&run.Ops, op.Return, op)
		}
		if i%10 == 0 {
			endpoints(run, at, i%20 == 0, true)
			run.Endpoints[len(run.Endpoints)-1].V.Revision = fmt.Sprint(i)
			run.Endpoints[len(run.Endpoints)-2].V.Revision = fmt.Sprint(i)
			lease(run, at, "kube-scheduler", fmt.Sprintf("node-%d", i/10%3+1), 0)
			appendAt(&run.Harness, sec(at), record.Harness{Late: time.Duration(i)})
		}
	}
	return run
}

func TestLongRecordMakesSmallPage(t *testing.T) {
	run := longRecord("long", 200_000)
	page, err := renderHTML(input{New(fixtureRun(), nil, nil), map[string]*record.Run{"long": run}, ""})
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 1<<20 {
		t.Errorf("report.html has %d bytes for one record, want at most 1 MiB", len(page))
	}
}

func TestEmptyRecordCanBeDrawn(t *testing.T) {
	for _, rec := range []*record.Run{{}, {Meta: fixtureMeta("x"), Faults: []record.Timed[record.Fault]{
		{V: record.Fault{ID: "a", Phase: record.FaultFailed, Error: "no such node"}},
		{V: record.Fault{ID: "b", Phase: record.FaultHealed}},
		{V: record.Fault{ID: "c", Phase: record.FaultInjected, Proof: "still there"}},
	}}} {
		if err := Write(filepath.Join(t.TempDir(), "new", "dir"), Run{}, nil, map[string]*record.Run{"x": rec}, nil); err != nil {
			t.Error(err)
		}
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
