package reports

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// The types below are the common subset of JUnit's XML: the elements of the Jenkins schema, with
// properties on test cases too.

type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Name    string     `xml:"name,attr"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitCase struct {
	Name       string          `xml:"name,attr"`
	Classname  string          `xml:"classname,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Failure    *junitMessage   `xml:"failure,omitempty"`
	Error      *junitMessage   `xml:"error,omitempty"`
	Skipped    *junitMessage   `xml:"skipped,omitempty"`
	Output     string          `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// renderJUnit makes one test case per requirement and scenario that judged it, and one skipped case
// per requirement that none judged. A fail is a failure, an inconclusive an error, and so is a
// problem of the run. A failed INFO shows a hazard and is not a failure. A certification that does
// not certify its rows has a case of its own.
func renderJUnit(in input) ([]byte, error) {
	suite := junitSuite{
		Name:      "holdfast",
		Time:      fmt.Sprintf("%.3f", in.Run.Ended.Sub(in.Run.Started).Seconds()),
		Timestamp: in.Run.Started.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{
			{"run", in.Run.ID},
			{"provider", in.Run.Provider},
			{"profile", in.Run.Profile},
			{"seed", fmt.Sprint(in.Run.Seed)},
			{"kubernetes", in.Run.Versions.Kubernetes},
			{"etcd", in.Run.Versions.Etcd},
			{"holdfast", in.Run.Versions.Holdfast},
		},
	}
	judged := map[string]bool{}
	for _, r := range in.All() {
		judged[r.ID] = r.Verdict != judge.NotApplicable
	}
	for _, group := range caseGroups(in.Results.Results, judged) {
		c := junitTestCase(group)
		if c.Skipped != nil && judged[c.Name] {
			continue
		}
		suite.add(c)
	}
	if problem := in.Run.Problem; problem != "" {
		suite.add(junitCase{Name: checkPrefix + "problem", Classname: "holdfast", Error: &junitMessage{Message: OneLine(problem), Type: "inconclusive"}})
	}
	if c := in.Run.Certificate; c != nil && !c.Certified {
		suite.add(certificateCase(c))
	}
	body, err := xml.MarshalIndent(junitSuites{Name: "holdfast", Suite: suite}, "", "  ")
	if err != nil {
		return nil, err
	}
	// The encoder escapes line breaks in text without need.
	body = bytes.ReplaceAll(body, []byte("&#xA;"), []byte("\n"))
	return slices.Concat([]byte(xml.Header), body, []byte("\n")), nil
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// certificateCase says why a certification did not certify its rows, which may all have passed. An
// observation, which certifies nothing, is skipped.
func certificateCase(c *Certificate) junitCase {
	one := junitCase{Name: "certificate", Classname: "holdfast"}
	message := &junitMessage{Message: OneLine(c.Judgement), Text: strings.Join(c.Open, "\n")}
	switch v := c.verdict(); v {
	case judge.Pass:
		one.Skipped = message
	case judge.Fail:
		message.Type = "fail"
		one.Failure = message
	default:
		message.Type = string(v)
		one.Error = message
	}
	return one
}

// caseGroups groups results by requirement and scenario, in this order. A requirement that no
// scenario judged is one group.
func caseGroups(results []judge.Result, judged map[string]bool) [][]judge.Result {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b judge.Result) int {
		return cmp.Or(cmp.Compare(a.Requirement, b.Requirement), cmp.Compare(a.Scenario, b.Scenario))
	})
	var groups [][]judge.Result
	for i, r := range sorted {
		if i > 0 && sorted[i-1].Requirement == r.Requirement && (sorted[i-1].Scenario == r.Scenario || !judged[r.Requirement]) {
			last := len(groups) - 1
			groups[last] = append(groups[last], r)
			continue
		}
		groups = append(groups, []judge.Result{r})
	}
	return groups
}

func junitTestCase(group []judge.Result) junitCase {
	r := decisive(group)
	c := junitCase{
		Name:      r.Requirement,
		Classname: "holdfast." + r.Scenario,
		Properties: []junitProperty{
			{"requirement", r.Requirement},
			{"level", r.Level},
			{"verdict", string(r.Verdict)},
			{"bound", OneLine(boundText(r.Bound))},
			{"measured", OneLine(r.Measured)},
			{"scenario", r.Scenario},
		},
		Output: caseOutput(group),
	}
	message := &junitMessage{Message: OneLine(r.Sentence), Text: strings.Join(r.Evidence, "\n")}
	switch {
	case broken(r.Level, r.Verdict):
		message.Type = "fail"
		c.Failure = message
	case r.Verdict == judge.Inconclusive:
		message.Type = "inconclusive"
		c.Error = message
	case r.Verdict == judge.NotApplicable:
		message.Text = ""
		c.Skipped = message
	}
	return c
}

// caseOutput returns all findings, so that a passed case is readable too, with their scenarios if
// there are several.
func caseOutput(group []judge.Result) string {
	var b strings.Builder
	several := group[0].Scenario != group[len(group)-1].Scenario
	for _, r := range group {
		if several {
			fmt.Fprintf(&b, "%s: ", OneLine(r.Scenario))
		}
		fmt.Fprintf(&b, "%s (%s): %s", r.Verdict, r.Judge, OneLine(r.Sentence))
		if r.MeasuredDuration != nil {
			fmt.Fprintf(&b, " [%d ns]", *r.MeasuredDuration/time.Nanosecond)
		}
		b.WriteByte('\n')
		for _, e := range r.Evidence {
			fmt.Fprintf(&b, "  %s\n", OneLine(e))
		}
	}
	return b.String()
}
