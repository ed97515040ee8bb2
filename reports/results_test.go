package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

func TestMergeOfVerdicts(t *testing.T) {
	const P, F, I, N = judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable
	for _, test := range []struct {
		verdicts []judge.Verdict
		want     judge.Verdict
	}{
		{[]judge.Verdict{P}, P},
		{[]judge.Verdict{P, N}, P},
		{[]judge.Verdict{N, N}, N},
		{[]judge.Verdict{N, I}, I},
		{[]judge.Verdict{P, I, P}, I},
		{[]judge.Verdict{I, F, P, N}, F},
		{[]judge.Verdict{P, "maybe"}, I},
		{[]judge.Verdict{""}, I},
	} {
		var results []judge.Result
		for i, v := range test.verdicts {
			results = append(results, judge.Result{Requirement: "HA-EP-003", Level: "MUST", Scenario: string(rune('a' + i)), Verdict: v})
		}
		for range 2 {
			got := Merge(results, nil)
			if len(got) != 1 || got[0].Verdict != test.want || len(got[0].Scenarios) != len(results) {
				t.Errorf("Merge of %q = %+v, want %q", test.verdicts, got, test.want)
			}
			slices.Reverse(results)
		}
	}
}

func TestMergeDecidesByShareOfBound(t *testing.T) {
	long, short := &judge.Bound{Formula: "L", Limit: 20 * time.Second}, &judge.Bound{Formula: "M", Limit: 2 * time.Second}
	results := []judge.Result{
		{Requirement: "HA-X-001", Level: "SHOULD", Scenario: "a", Verdict: judge.Pass, Bound: long, MeasuredDuration: dur(10), Sentence: "long"},
		{Requirement: "HA-X-001", Level: "MUST", Scenario: "b", Verdict: judge.Pass, Bound: short, MeasuredDuration: dur(1.9), Sentence: "short"},
		{Requirement: "HA-X-001", Level: "INFO", Scenario: "c", Verdict: judge.Pass, Sentence: "none"},
	}
	for range 3 {
		got := Merge(results, map[string]string{"HA-X-001": "title"})[0]
		if got.Sentence != "short" || got.DecidedBy != "b" || got.Level != "MUST" || got.Title != "title" {
			t.Errorf("decided by %+v, want scenario b, level MUST", got)
		}
		results = append(results[1:], results[0])
	}
}

// TestMergeJustified: a requirement does not apply by design if no result says that it cannot be tested
// here, and none has another verdict.
func TestMergeJustified(t *testing.T) {
	design := judge.Result{Requirement: "HA-LE-011", Scenario: "a", Verdict: judge.NotApplicable, Justified: true, Sentence: "no supervisors"}
	untested := judge.Result{Requirement: "HA-LE-011", Scenario: "b", Verdict: judge.NotApplicable, Sentence: "no ability"}
	passed := judge.Result{Requirement: "HA-LE-011", Scenario: "b", Verdict: judge.Pass, Sentence: "done"}
	for _, test := range []struct {
		name    string
		results []judge.Result
		want    bool
	}{
		{"by design", []judge.Result{design, design}, true},
		{"not testable here", []judge.Result{untested}, false},
		{"both", []judge.Result{design, untested}, false},
		{"passed elsewhere", []judge.Result{design, passed}, false},
	} {
		if got := Merge(test.results, nil)[0]; got.Justified != test.want {
			t.Errorf("%s: %+v", test.name, got)
		}
		var data bytes.Buffer
		if err := WriteJSON(&data, New(Run{ID: "r"}, test.results, nil)); err != nil {
			t.Fatal(err)
		}
		if err := Validate(data.Bytes()); err != nil {
			t.Errorf("%s: the results do not fit their own schema: %v", test.name, err)
		}
	}
}

func TestMergeLeavesChecksOfTheHarnessApart(t *testing.T) {
	for _, r := range Merge(fixtureResults(), nil) {
		if r.Check() {
			t.Errorf("Merge has the check %s among the requirements", r.ID)
		}
	}
	checks := Checks(fixtureResults(), nil)
	if len(checks) != 1 || checks[0].ID != "RUN/harness" {
		t.Errorf("Checks = %+v", checks)
	}
}

func TestExitCode(t *testing.T) {
	one := func(level string, v judge.Verdict) judge.Result {
		return judge.Result{Requirement: "HA-EP-001", Level: level, Verdict: v}
	}
	for _, test := range []struct {
		name    string
		results []judge.Result
		want    int
	}{
		{"nothing judged", nil, 3},
		{"pass", []judge.Result{one("MUST", judge.Pass)}, 0},
		{"not applicable", []judge.Result{one("MUST", judge.NotApplicable)}, 0},
		{"MUST fails", []judge.Result{one("MUST", judge.Fail), one("MUST", judge.Inconclusive)}, 1},
		{"SHOULD fails", []judge.Result{one("MUST", judge.Inconclusive), one("SHOULD", judge.Fail)}, 1},
		{"INFO fails", []judge.Result{one("INFO", judge.Fail), one("MUST", judge.Pass)}, 0},
		{"INFO fails in a list with an inconclusive", []judge.Result{one("INFO", judge.Fail), one("MUST", judge.Inconclusive)}, 3},
		{"unknown verdict", []judge.Result{one("MUST", "ok")}, 3},
		{"unknown level", []judge.Result{one("must", judge.Fail)}, 1},
		{"invariant", []judge.Result{one("MUST", judge.Pass), {Requirement: "HA-INV-001", Level: "MUST", Verdict: judge.Fail}}, 1},
		{"invariant without anything to judge", []judge.Result{one("MUST", judge.Pass), {Requirement: "HA-INV-001", Level: "MUST", Verdict: judge.NotApplicable}}, 0},
	} {
		if got := ExitCode(test.results); got != test.want {
			t.Errorf("%s: exit code %d, want %d", test.name, got, test.want)
		}
		var data bytes.Buffer
		if err := WriteJSON(&data, New(Run{ID: "r"}, test.results, nil)); err != nil {
			t.Fatal(err)
		}
		if err := Validate(data.Bytes()); err != nil {
			t.Errorf("%s: the results do not fit their own schema: %v", test.name, err)
		}
	}
}

func TestLoadReadsBackWhatWriteWrote(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, fixtureRun(), fixtureResults(), fixtureRecords(), fixtureTitles()); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := New(fixtureRun(), fixtureResults(), fixtureTitles())
	if got.ExitCode != 1 || got.Verdict != judge.Fail {
		t.Errorf("exit code %d and verdict %q, want 1 and fail", got.ExitCode, got.Verdict)
	}
	var read, written bytes.Buffer
	if err := errors.Join(WriteJSON(&read, got), WriteJSON(&written, want)); err != nil || read.String() != written.String() {
		t.Errorf("Load differs from what was written (%v):\n got %s\nwant %s", err, read.String(), written.String())
	}
	if changes := Diff(got, want); len(changes) != 0 {
		t.Errorf("Diff of the same results: %+v", changes)
	}
}

func TestLoadIsStrict(t *testing.T) {
	good, err := os.ReadFile("testdata/results.json.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"verdict", `"verdict": "pass"`, `"verdict": "passed"`, "/verdict'"},
		{"unknown field", `"id": "HA-CL-003"`, `"id": "HA-CL-003", "colour": "red"`, "colour"},
		{"missing field", `"exitCode": 1,`, ``, "exitCode"},
		{"type", `"cores": 2`, `"cores": "two"`, "/run/machine/cores"},
		{"time", `"started": "2026-08-20T03:15:00Z"`, `"started": "yesterday"`, "/run/started"},
		{"seed too large", `"16045690984833335023"`, `"99999999999999999999"`, "seed"},
		{"version", `"version": 2`, `"version": 1`, "format version 1"},
		{"cut short", `"results": [`, ``, "JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := bytes.Replace(good, []byte(test.old), []byte(test.new), 1)
			if bytes.Equal(bad, good) {
				t.Fatalf("%q is not in the golden file", test.old)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ResultsFile), bad, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want one with %q and the path", err, test.want)
			}
		})
	}
	empty := t.TempDir()
	file := filepath.Join(empty, "bundle.tar")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{empty: "holdfast report " + empty, file: "tar -xf " + file + " -C DIR", empty + "/none": "none does not exist"} {
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestLine(t *testing.T) {
	bound := fixtureBound("T + I + M", 27, nil)
	for _, test := range []struct {
		req  Requirement
		want string
	}{
		{Requirement{ID: "HA-EP-003", Level: "MUST", Verdict: judge.Pass, Bound: bound, Sentence: "address gone after 13.9s"},
			"PASS  HA-EP-003  address gone after 13.9s (bound T + I + M = 27s)"},
		{Requirement{ID: "HA-EP-003", Level: "MUST", Verdict: judge.Fail, Bound: bound, Sentence: "not gone within T + I + M = 27s"},
			"FAIL  HA-EP-003  not gone within T + I + M = 27s"},
		{Requirement{ID: "HA-QR-003", Level: "INFO", Verdict: judge.Fail, Sentence: "stale\nread"}, "INFO  HA-QR-003  stale read"},
		{Requirement{ID: "HA-QR-003", Level: "MUST", Verdict: judge.NotApplicable, Sentence: "no ability"}, "N/A  HA-QR-003  no ability"},
		{Requirement{ID: "HA-LE-011", Level: "MUST", Verdict: judge.NotApplicable, Justified: true, Sentence: "no supervisors"}, "N/A  HA-LE-011  no supervisors (by design)"},
		{Requirement{ID: "HA-QR-010", Level: "MUST", Verdict: judge.Pass, Bound: fixtureBound("E", 1, nil), Sentence: "Every write done"},
			"PASS  HA-QR-010  Every write done (bound E = 1s)"},
	} {
		if got := line(test.req, 0, 0, false); got != test.want {
			t.Errorf("Line:\n got %s\nwant %s", got, test.want)
		}
	}
	var out bytes.Buffer
	if err := Print(&out, "", []Requirement{{ID: "HA-EP-003", Level: "MUST", Verdict: judge.Fail}}, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[1;31mFAIL\x1b[0m") {
		t.Errorf("no colour in %q", out.String())
	}
}

// A run that could not do everything, such as release its cluster, does not pass, whatever was judged.
// A certificate stays what its rows make it.
func TestProblemOfRun(t *testing.T) {
	const P, F, I, N = judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable
	const problem = "cluster-1: agents are left on node-2\n"
	for name, test := range map[string]struct {
		judged      judge.Verdict
		problem     string
		certificate *Certificate
		want        judge.Verdict
		code        int
	}{
		"all pass":                    {P, "", nil, P, ExitPass},
		"all pass, and a problem":     {P, problem, nil, I, ExitInconclusive},
		"nothing applies":             {N, "", nil, N, ExitPass},
		"nothing applies, a problem":  {N, problem, nil, I, ExitInconclusive},
		"a failure and a problem":     {F, problem, nil, F, ExitFail},
		"inconclusive, and a problem": {I, problem, nil, I, ExitInconclusive},
		"certified":                   {P, "", &Certificate{Certified: true}, P, ExitPass},
		"certified, and a problem":    {P, problem, &Certificate{Certified: true}, P, ExitInconclusive},
		"a row failed, and a problem": {F, problem, &Certificate{ExitCode: ExitFail}, F, ExitFail},
	} {
		run := fixtureRun()
		run.Problem, run.Certificate = test.problem, test.certificate
		r := New(run, []judge.Result{{Requirement: "HA-EP-003", Level: "MUST", Scenario: "s", Verdict: test.judged}}, nil)
		if r.Verdict != test.want || r.ExitCode != test.code {
			t.Errorf("%s: %s, exit code %d; want %s, %d", name, r.Verdict, r.ExitCode, test.want, test.code)
		}
		in := input{r, nil, ""}
		text, err := renderJUnit(in)
		if err != nil {
			t.Fatal(err)
		}
		var suites junitSuites
		if err := xml.Unmarshal(text, &suites); err != nil {
			t.Fatal(err)
		}
		s, errors := suites.Suite, 0
		for _, c := range s.Cases {
			if c.Error != nil {
				errors++
			}
		}
		i := slices.IndexFunc(s.Cases, func(c junitCase) bool { return c.Name == "RUN/problem" })
		if i >= 0 != (test.problem != "") || s.Tests != len(s.Cases) || s.Errors != errors || i >= 0 && (s.Cases[i].Error == nil || s.Cases[i].Error.Message != "cluster-1: agents are left on node-2") {
			t.Errorf("%s: JUnit has %d tests, %d errors: %+v", name, s.Tests, s.Errors, s.Cases)
		}
		if shown := strings.Contains(string(markdown(in, true)), "**The run had a problem:** cluster-1: agents are left on node-2\n"); shown != (test.problem != "") {
			t.Errorf("%s: the summary shows a problem: %t", name, shown)
		}
	}
}

// Text from elsewhere keeps its letters, and has nothing that a terminal obeys.
func TestPlainText(t *testing.T) {
	for text, want := range map[string][2]string{
		"ä → ✅ 日本":            {"ä → ✅ 日本", "ä → ✅ 日本"},
		"a\n\tb  c":           {"a\n\tb  c", "a b c"},
		"\x1b[2J\x1b[Hgone":   {"[2J[Hgone", "[2J[Hgone"},
		"one\rtwo\u0085three": {"one two three", "one two three"},
		"x\u009b2K\x00\x7fy":  {"x2Ky", "x2Ky"},
		"pass\u202eliaf":      {"passliaf", "passliaf"},
	} {
		if got := [2]string{Plain(text), OneLine(text)}; got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	bound := &judge.Bound{Formula: "M\x1b[1A", Limit: time.Second}
	var out bytes.Buffer
	if err := Print(&out, "", []Requirement{{ID: "HA-\x1b[2J", Level: "MUST", Verdict: judge.Pass, Bound: bound, Sentence: "fine\x1b[8m\r"}}, false); err != nil {
		t.Fatal(err)
	}
	if want := "PASS  HA-[2J  fine[8m (bound M[1A = 1s)\n\n1 requirement: 1 pass\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500: "2µs", 412 * time.Microsecond: "412µs", 3400 * time.Microsecond: "3.4ms", 340 * time.Millisecond: "340ms",
		1190 * time.Millisecond: "1.19s", 13931 * time.Millisecond: "13.9s", 27 * time.Second: "27s",
		123 * time.Second: "2m03s", 3599900 * time.Millisecond: "60m00s", 62 * time.Minute: "1h02m", -3 * time.Second: "-3s", -90 * time.Second: "-1m30s",
	} {
		if got := human(d); got != want {
			t.Errorf("human(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestDiffExitCode(t *testing.T) {
	one := func(level string, v judge.Verdict) *Results {
		return New(Run{ID: "r"}, []judge.Result{{Requirement: "HA-EP-001", Level: level, Scenario: "s", Verdict: v}}, nil)
	}
	harness := func(v judge.Verdict) *Results {
		return New(Run{ID: "r"}, []judge.Result{{Requirement: checkPrefix + "harness", Level: "INFO", Scenario: "s", Verdict: v}}, nil)
	}
	certified := func(c Certificate) *Results {
		return New(Run{ID: "r", Certificate: &c}, []judge.Result{{Requirement: "HA-EP-001", Level: "MUST", Scenario: "s", Verdict: judge.Pass}}, nil)
	}
	none := New(Run{ID: "r"}, nil, nil)
	for _, test := range []struct {
		name string
		a, b *Results
		want int
	}{
		{"the same", one("MUST", judge.Pass), one("MUST", judge.Pass), 0},
		{"pass to fail", one("MUST", judge.Pass), one("MUST", judge.Fail), 1},
		{"inconclusive to fail", one("SHOULD", judge.Inconclusive), one("SHOULD", judge.Fail), 1},
		{"still fails", one("MUST", judge.Fail), one("MUST", judge.Fail), 0},
		{"fail to pass", one("MUST", judge.Fail), one("MUST", judge.Pass), 0},
		{"fail to inconclusive", one("MUST", judge.Fail), one("MUST", judge.Inconclusive), 0},
		{"pass to inconclusive", one("MUST", judge.Pass), one("MUST", judge.Inconclusive), 3},
		{"pass to not applicable", one("MUST", judge.Pass), one("MUST", judge.NotApplicable), 3},
		{"a hazard that shows", one("INFO", judge.Pass), one("INFO", judge.Fail), 0},
		{"an overloaded machine", harness(judge.Pass), harness(judge.Inconclusive), 0}, // what that cost are other verdicts
		{"new and failed", none, one("MUST", judge.Fail), 1},
		{"new and passed", none, one("MUST", judge.Pass), 0},
		{"no longer judged", one("MUST", judge.Pass), none, 3},
		{"failed and no longer judged", one("MUST", judge.Fail), none, 0},
		{"still certified", certified(Certificate{Certified: true}), certified(Certificate{Certified: true}), 0},
		{"no longer certified, and every row passed", certified(Certificate{Certified: true}), certified(Certificate{ExitCode: ExitInconclusive}), 3},
		{"certified at last", certified(Certificate{ExitCode: ExitInconclusive}), certified(Certificate{Certified: true}), 0},
	} {
		if got := DiffExitCode(Diff(test.a, test.b)); got != test.want {
			t.Errorf("%s: exit code %d, want %d", test.name, got, test.want)
		}
		// Every change with an exit code is also marked as worse.
		changes := Diff(test.a, test.b)
		worse := slices.ContainsFunc(changes, func(c Change) bool { return c.Worse })
		if worse && test.name == "an overloaded machine" {
			t.Errorf("%s: worse: %+v", test.name, changes)
		}
		if test.want != ExitPass && !worse {
			t.Errorf("%s: exit code %d, and no change is worse: %+v", test.name, test.want, changes)
		}
	}
}

// Requirements without a verdict for the same reason share a line.
func TestPrintShares(t *testing.T) {
	var reqs []Requirement
	for i := range 5 {
		reqs = append(reqs, Requirement{ID: fmt.Sprint("HA-EP-00", i), Level: "MUST", Verdict: judge.Inconclusive, Sentence: "scenario x was not run"})
	}
	reqs = append(reqs, Requirement{ID: "HA-QR-001", Level: "MUST", Verdict: judge.Pass}, Requirement{ID: checkPrefix + "harness", Verdict: judge.NotApplicable})
	var out bytes.Buffer
	if err := Print(&out, "Report: r", reqs, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "scenario x was not run") != 1 || !strings.Contains(text, "HA-EP-000, HA-EP-001, HA-EP-002, HA-EP-003, HA-EP-004") ||
		!strings.Contains(text, "5 requirements") || strings.Contains(text, "harness") || !strings.HasSuffix(text, "Report: r\n") {
		t.Errorf("printed:\n%s", text)
	}
}

func TestDiff(t *testing.T) {
	a := New(fixtureRun(), fixtureResults(), nil)
	run, results := fixtureRun(), fixtureResults()
	run.Versions.Kubernetes = "v1.36.3"
	results[0].MeasuredDuration = dur(21.5) // HA-EP-003, slower
	results[1].Verdict = judge.Fail         // HA-EP-006
	results[1].Sentence = "address 10.77.0.12 not back"
	results[2].Verdict = judge.Pass                       // HA-CL-003
	results[3].MeasuredDuration = dur(16.6)               // noise
	results[3].Bound = fixtureBound("L + P + M", 25, nil) // HA-LE-002
	results = append(results[:4], results[5:]...)         // HA-QR-001 gone
	results = append(results, judge.Result{Requirement: "HA-TOP-001", Level: "MUST", Verdict: judge.Pass, Sentence: "fine"})
	var out bytes.Buffer
	if err := PrintDiff(&out, Diff(a, New(run, results, nil))); err != nil {
		t.Fatal(err)
	}
	want := `! HA-EP-003: measured 13.9s → 21.5s
! HA-EP-006: pass → fail: address 10.77.0.12 not back
! HA-QR-001: no longer judged (was pass)
  HA-CL-003: fail → pass: a client pinned to the load balancer saw errors for 8.9s after the API server on node-2 was killed
  HA-LE-002: bound L + P + M = 19s → L + P + M = 25s
  HA-TOP-001: new, pass: fine
  kubernetes: v1.37.1 → v1.36.3
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := PrintDiff(&out, nil); err != nil || !strings.HasPrefix(out.String(), "no difference") {
		t.Errorf("PrintDiff of nothing: %q, %v", out.String(), err)
	}
}

// What counts as slower follows from the bound, where that is shorter than two seconds.
func TestDiffOfShortTimes(t *testing.T) {
	at := func(bound *judge.Bound, measured float64) *Results {
		return New(Run{ID: "r"}, []judge.Result{{Requirement: "HA-QR-011", Level: "MUST", Scenario: "s", Verdict: judge.Pass, Bound: bound, MeasuredDuration: dur(measured)}}, nil)
	}
	short, long := fixtureBound("240ms", 0.24, nil), fixtureBound("H + M", 4, nil)
	for _, test := range []struct {
		name   string
		bound  *judge.Bound
		before float64
		after  float64
		worse  bool
	}{
		{"a quarter of a short bound", short, 0.1, 0.16, true},
		{"less than that", short, 0.1, 0.155, false},
		{"less than a quarter of what it was", short, 2, 2.4, false},
		{"less than half a second of a long bound", long, 0.1, 0.5, false},
		{"half a second of a long bound", long, 0.1, 0.6, true},
		{"no bound", nil, 0.1, 0.5, false},
	} {
		changes := Diff(at(test.bound, test.before), at(test.bound, test.after))
		if worse := len(changes) == 1 && changes[0].Kind == ChangedMeasured && changes[0].Worse; worse != test.worse || len(changes) > 1 {
			t.Errorf("%s: %+v", test.name, changes)
		}
	}
}

// FuzzResults checks that any results file is either refused or read and written again unchanged.
func FuzzResults(f *testing.F) {
	var text bytes.Buffer
	if err := WriteJSON(&text, New(fixtureRun(), fixtureResults(), fixtureTitles())); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(`{"version": 2}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if Validate(data) != nil {
			return
		}
		var r, again Results
		if err := ReadJSON(data, &r); err != nil {
			return
		}
		var once, twice bytes.Buffer
		if err := WriteJSON(&once, r); err != nil {
			t.Fatal(err)
		}
		if err := ReadJSON(once.Bytes(), &again); err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(&twice, again); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Errorf("written again it differs: %v", err)
		}
	})
}
