package reports

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// certified returns the results of a certification that covers HA-EP-003 and HA-INV-001, whose
// experiments also judge two other requirements.
func certified(c Certificate, others ...judge.Verdict) *Results {
	run := fixtureRun()
	run.Certificate = &c
	c.Rows = []string{"HA-EP-003", "HA-INV-001"}
	results := []judge.Result{{Requirement: "HA-EP-003", Level: "MUST", Scenario: "s", Verdict: judge.Pass}, {Requirement: "HA-INV-001", Level: "MUST", Scenario: "s", Verdict: judge.Pass}}
	for i, v := range others {
		results = append(results, judge.Result{Requirement: "HA-RC-00" + string(rune('1'+i)), Level: "MUST", Scenario: "s", Verdict: v})
	}
	return New(run, results, nil)
}

// The verdict of a certification is its certificate's, whatever else its experiments judge.
func TestCertificateDecides(t *testing.T) {
	const P, F, I = judge.Pass, judge.Fail, judge.Inconclusive
	yes := Certificate{Certified: true, Judgement: "certified for the rows: 2 pass"}
	for _, test := range []struct {
		results  *Results
		verdict  judge.Verdict
		code     int
		headline string
	}{
		{certified(yes, P, P), P, 0, "Certified for the rows: 2 pass."},
		{certified(yes, P, I), P, 0, "Certified for the rows: 2 pass. Of 2 other requirements that its experiments also judge, 1 is inconclusive."},
		{certified(yes, I, F, I), P, 0, "Certified for the rows: 2 pass. Of 3 other requirements that its experiments also judge, 1 failed (HA-RC-002) and 2 are inconclusive."},
		{certified(Certificate{Judgement: "observed", ExitCode: 0}), P, 0, "Observed."},
		{certified(Certificate{Judgement: "not certified", ExitCode: 1}, P), F, 1, "Not certified."},
		{certified(Certificate{Judgement: "not certified", ExitCode: 3}, P), I, 3, "Not certified."},
	} {
		r := test.results
		if r.Verdict != test.verdict || r.ExitCode != test.code || r.Headline() != test.headline {
			t.Errorf("%s, exit code %d, %q; want %s, %d, %q", r.Verdict, r.ExitCode, r.Headline(), test.verdict, test.code, test.headline)
		}
	}
}

// A problem of the run is in each report for CI, and none of them reports that all is well.
func TestProblemInReports(t *testing.T) {
	run := fixtureRun()
	run.Problem = "the cluster could not be released"
	passed := []judge.Result{{Requirement: "HA-EP-003", Level: "MUST", Scenario: "s", Verdict: judge.Pass}}
	plain := New(run, passed, nil)
	run.Certificate = &Certificate{Certified: true, Judgement: "certified", Rows: []string{"HA-EP-003"}}
	for _, r := range []*Results{plain, New(run, passed, nil)} {
		var got sonobuoyItem
		text, err := renderSonobuoy(input{r, nil, ""})
		if err == nil {
			err = yaml.Unmarshal(text, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if last := got.Items[len(got.Items)-1]; got.Status != "unknown" || last.Name != "RUN/problem" || last.Status != "unknown" || last.Details["finding"] != run.Problem {
			t.Errorf("for Sonobuoy it is %+v", got)
		}
		var suites junitSuites
		if text, err := renderJUnit(input{r, nil, ""}); err != nil || xml.Unmarshal(text, &suites) != nil || suites.Suite.Errors != 1 {
			t.Errorf("%v, in JUnit it is %s", err, text)
		}
	}
}

func TestCertificateInReports(t *testing.T) {
	in := input{certified(Certificate{Certified: true, Judgement: "certified for the rows: 2 pass"}, judge.Pass, judge.Inconclusive), nil, ""}
	page, err := renderHTML(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<span class="badge big pass">pass</span>`, `<p class="headline">Certified for the rows: 2 pass. Of 2 other`,
		`<span class="id">HA-EP-003</span> <span class="badge info"`, `<span class="id">HA-INV-001</span> <span class="badge info"`} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("no %s in the page", want)
		}
	}
	if n := bytes.Count(page, []byte(">certificate</span>")); n != 2 {
		t.Errorf("%d rows are marked as those of the certificate, want 2", n)
	}
	summary := string(markdown(in, true))
	if !strings.HasPrefix(summary, "# holdfast: pass\n\nCertified for the rows: 2 pass. Of 2 other") || !strings.Contains(summary, "4 requirements: 3 pass, 1 inconclusive.") {
		t.Errorf("the summary begins with %.200s", summary)
	}
	text, err := renderSonobuoy(in)
	if err != nil {
		t.Fatal(err)
	}
	var got sonobuoyItem
	if err := yaml.Unmarshal(text, &got); err != nil || got.Status != "passed" || len(got.Items) != 4 || got.Items[3].Status != "unknown" {
		t.Errorf("%v, %+v", err, got)
	}
	// Its rows pass in the experiments, and a node was missed.
	const open = "HA-EP-003 is inconclusive: no experiment of apiserver-killed hit node-2"
	for name, test := range map[string]struct {
		certificate Certificate
		verdict     string // of the case in JUnit
		sonobuoy    string
	}{
		"certified":     {Certificate{Certified: true, Judgement: "certified"}, "none", "none"},
		"not certified": {Certificate{Judgement: "not certified", ExitCode: ExitInconclusive, Open: []string{open}}, "error", "unknown"},
		"a row failed":  {Certificate{Judgement: "not certified", ExitCode: ExitFail, Open: []string{open}}, "failure", "failed"},
		"observed":      {Certificate{Judgement: "observed"}, "skipped", "none"},
	} {
		in := input{certified(test.certificate), nil, ""}
		want := len(test.certificate.Open) > 0
		if got := strings.Contains(string(markdown(in, true)), ".\n\n- "+open+"\n\n"); got != want {
			t.Errorf("%s: the summary has the row: %t", name, got)
		}
		if page, err := renderHTML(in); err != nil || bytes.Contains(page, []byte("<li>"+open+"</li>")) != want {
			t.Errorf("%s: %v, the page has the row: %t", name, err, !want)
		}
		var suites junitSuites
		if text, err := renderJUnit(in); err != nil || xml.Unmarshal(text, &suites) != nil {
			t.Fatalf("%s: %v, %s", name, err, text)
		}
		got := "none"
		if last := suites.Suite.Cases[len(suites.Suite.Cases)-1]; last.Name == "certificate" {
			for kind, message := range map[string]*junitMessage{"error": last.Error, "failure": last.Failure, "skipped": last.Skipped} {
				if message != nil && message.Message == test.certificate.Judgement && strings.Contains(message.Text, open) == want {
					got = kind
				}
			}
		}
		if s := suites.Suite; got != test.verdict || s.Tests != len(s.Cases) {
			t.Errorf("%s: in JUnit it is %s, want %s, of %d tests", name, got, test.verdict, s.Tests)
		}
		got = "none"
		var items sonobuoyItem
		if text, err := renderSonobuoy(in); err != nil || yaml.Unmarshal(text, &items) != nil {
			t.Fatalf("%s: %v, %s", name, err, text)
		}
		if last := items.Items[len(items.Items)-1]; last.Name == "certificate" && last.Details["open"] == open {
			got = last.Status
		}
		if got != test.sonobuoy {
			t.Errorf("%s: for Sonobuoy it is %s, want %s", name, got, test.sonobuoy)
		}
	}
	dir := t.TempDir()
	results, err := JSON(in.Results)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ResultsFile), results, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Load(dir); err != nil || r.Verdict != judge.Pass || r.Run.Certificate == nil || !r.Run.Certificate.Certified {
		t.Errorf("%v, read back: %+v", err, r)
	}
}
