package reports

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// A summary is within the limit whatever is too long in it, shows what did not pass, and says what
// it leaves out.
func TestSummaryIsBounded(t *testing.T) {
	many := func(sentence, evidence string) (results []judge.Result) {
		for i := range 20_000 {
			results = append(results, judge.Result{Requirement: fmt.Sprintf("HA-AA-%05d", i), Level: "MUST", Scenario: "s", Verdict: judge.Pass, Sentence: sentence})
		}
		return append(results, judge.Result{Requirement: "HA-ZZ-001", Level: "MUST", Scenario: "s", Verdict: judge.Fail, Sentence: "broken", Evidence: []string{evidence}})
	}
	long := strings.Repeat("ü<|", 1<<19)
	for name, test := range map[string]struct {
		run     Run
		results []judge.Result
		want    []string
	}{
		"evidence":           {fixtureRun(), many("", long), []string{"The evidence is in report.html.", "\n## Run\n"}},
		"requirements":       {fixtureRun(), many(strings.Repeat("held ", 50), long), []string{"> Shortened to 1024 KiB. Left out, and in report.html: the evidence, the ends of 0 long lines and the last "}},
		"one sentence":       {fixtureRun(), append(many("", ""), judge.Result{Requirement: "HA-ZZ-000", Level: "MUST", Scenario: "s", Verdict: judge.Fail, Sentence: long}), []string{"HA-ZZ-000", "the ends of 1 long line and the last 0 lines.", "\n## Run\n"}},
		"one without spaces": {Run{Problem: long}, many("", ""), []string{"The run had a problem", "the ends of 1 long line and"}},
		"the command":        {Run{Command: []string{long, long}}, many("", ""), []string{"the ends of 1 long line and"}},
	} {
		text, err := renderMarkdown(input{New(test.run, test.results, nil), nil, ""})
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > summaryLimit || !utf8.Valid(text) {
			t.Errorf("%s: %d bytes, valid UTF-8: %v; want at most %d", name, len(text), utf8.Valid(text), summaryLimit)
		}
		for _, want := range append(test.want, "# holdfast: fail\n", "| HA-ZZ-001 | MUST | fail |") {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the summary lacks %q; it begins with\n%.600s", name, want, text)
			}
		}
	}
}
