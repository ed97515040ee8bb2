package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// nights returns results of runs a day apart, with one requirement that is measured and one that
// is not; the last one fails.
func nights() map[string]*Results {
	all := map[string]*Results{}
	for i, took := range []time.Duration{4 * time.Second, 6 * time.Second, 21 * time.Second} {
		verdict := judge.Pass
		if took > 10*time.Second {
			verdict = judge.Fail
		}
		run := fixtureRun()
		run.ID = fmt.Sprintf("night-%d", i+1)
		run.Started = time.Date(2026, 11, 20+i, 2, 0, 0, 0, time.UTC)
		run.Ended = run.Started.Add(12 * time.Minute)
		run.Clusters = []Cluster{{Name: "cluster-1", LoadBalancer: "builtin", Settings: map[string]time.Duration{"L": time.Duration(15+i) * time.Second}}}
		measured := took
		all[fmt.Sprintf("results/%d", 9-i)] = New(run, []judge.Result{
			{Requirement: "HA-EP-003", Level: "MUST", Scenario: "s", Verdict: verdict, Measured: took.String(), MeasuredDuration: &measured,
				Bound: &judge.Bound{Formula: "I", Limit: 10 * time.Second}, Sentence: "gone <after> " + took.String()},
			{Requirement: "HA-QR-001", Level: "MUST", Scenario: "s", Verdict: judge.Pass, Sentence: "read"},
		}, nil)
	}
	return all
}

func TestHistory(t *testing.T) {
	h := NewHistory(nights())
	if len(h.Runs) != 3 || h.Runs[0].ID != "night-1" || h.Runs[2].Verdict != judge.Fail || h.Runs[0].Took != 12*time.Minute {
		t.Fatalf("%+v", h.Runs)
	}
	if len(h.Rows) != 2 || !h.Rows[0].Changed() || h.Rows[1].Changed() {
		t.Fatalf("%+v", h.Rows)
	}
	var out bytes.Buffer
	if err := h.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"|..F|", "|...|", "4s", "21s", "night-2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	// Values are below their headings, also next to rows that have none.
	column := -1
	for line := range strings.Lines(out.String()) {
		switch {
		case strings.HasPrefix(line, "REQUIREMENT"):
			column = strings.Index(line, "SHORTEST")
		case strings.HasPrefix(line, "HA-EP-003") && strings.Index(line, "4s") != column:
			t.Errorf("the shortest time is not below its heading in\n%s", &out)
		}
	}
	page, err := h.HTML()
	if err != nil {
		t.Fatal(err)
	}
	// Changed requirements come first; findings are text, not markup.
	text := string(page)
	if first, second := strings.Index(text, "<b>HA-EP-003</b>"), strings.Index(text, "<b>HA-QR-001</b>"); first < 0 || second < first {
		t.Errorf("HA-EP-003 at %d, HA-QR-001 at %d", first, second)
	}
	for _, want := range []string{`class="changed"`, `class="fail"`, "most 21s of 10s", "gone &lt;after&gt; 21s", "<polyline"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, never := range []string{"<after>", "http://", "https://"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if _, err := NewHistory(map[string]*Results{"x": New(fixtureRun(), nil, nil)}).HTML(); err != nil {
		t.Errorf("one run without verdicts: %v", err)
	}
}

// A requirement that one night did not judge has a gap there.
func TestHistoryWithHoles(t *testing.T) {
	all := nights()
	all["results/8"] = New(all["results/8"].Run, all["results/8"].Results[1:], nil)
	h := NewHistory(all)
	var out bytes.Buffer
	if err := h.Print(&out); err != nil || !strings.Contains(out.String(), "|. F|") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestDiffOfSettings(t *testing.T) {
	all := nights()
	var out bytes.Buffer
	changes := Diff(all["results/9"], all["results/7"])
	if err := PrintDiffMarkdown(&out, changes); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| setting L | 15s → 17s |", "| HA-EP-003 | pass → fail |", "measured 4s → 21s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := PrintDiffMarkdown(&out, nil); err != nil || !strings.Contains(out.String(), "No difference") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A requirement is shown as skipped only if no scenario judged it.
func TestJUnitWithoutNoise(t *testing.T) {
	results := []judge.Result{
		{Requirement: "HA-INV-006", Level: "MUST", Scenario: "a", Verdict: judge.Pass},
		{Requirement: "HA-INV-006", Level: "MUST", Scenario: "b", Verdict: judge.NotApplicable, Sentence: "no watch"},
		{Requirement: "HA-LE-011", Level: "MUST", Scenario: "a", Verdict: judge.NotApplicable, Sentence: "no podmaster"},
	}
	text, err := renderJUnit(input{New(fixtureRun(), results, nil), nil, ""})
	if err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	if s := suites.Suite; s.Tests != 2 || s.Skipped != 1 || len(s.Cases) != 2 || s.Cases[1].Name != "HA-LE-011" {
		t.Errorf("%d tests, %d skipped, %d cases", s.Tests, s.Skipped, len(s.Cases))
	}
}

// A summary that exceeds GitHub's limit omits the evidence.
func TestSummaryLimit(t *testing.T) {
	results := []judge.Result{{Requirement: "HA-EP-003", Level: "MUST", Scenario: "a", Verdict: judge.Fail, Sentence: "late", Evidence: []string{strings.Repeat("x", summaryLimit)}}}
	text, err := renderMarkdown(input{New(fixtureRun(), results, nil), nil, ""})
	if err != nil || len(text) > summaryLimit || !bytes.Contains(text, []byte("HA-EP-003")) || !bytes.Contains(text, []byte("The evidence is in report.html.")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestSonobuoy(t *testing.T) {
	results := []judge.Result{
		{Requirement: "A", Level: "MUST", Scenario: "a", Verdict: judge.Pass},
		{Requirement: "B", Level: "MUST", Scenario: "a", Verdict: judge.Fail, Sentence: "two\nlines"},
		{Requirement: "C", Level: "INFO", Scenario: "a", Verdict: judge.Fail},
		{Requirement: "D", Level: "MUST", Scenario: "a", Verdict: judge.Inconclusive},
		{Requirement: "E", Level: "MUST", Scenario: "a", Verdict: judge.NotApplicable},
	}
	text, err := renderSonobuoy(input{New(fixtureRun(), results, nil), nil, ""})
	if err != nil {
		t.Fatal(err)
	}
	var got sonobuoyItem
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var statuses []string
	for _, item := range got.Items {
		statuses = append(statuses, item.Name+" "+item.Status)
	}
	if want := "A passed, B failed, C passed, D unknown, E skipped"; strings.Join(statuses, ", ") != want || got.Status != "failed" {
		t.Errorf("%s: %q, want %q", got.Status, statuses, want)
	}
}
