package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

//go:embed report.html.tmpl
var pageTemplate string

// page is the input of the template.
type page struct {
	*Results
	// Headline is the verdict in a sentence, Reproduce the command that runs it again.
	Headline  string
	Reproduce string
	Facts     []fact
	Tiles     []tile
	Tables    []table
	Scenarios []scenarioView
	Legend    []legendEntry
	// TimeText and Times say where the time went.
	TimeText string
	Times    []timeRow
}

type tile struct {
	Count int
	Label string
	Class string
}

type table struct {
	Title  string
	Groups []group
	// Filtered puts a search field and a filter above the table.
	Filtered bool
}

type legendEntry struct{ Class, Name string }

type scenarioView struct {
	Name, Anchor, Record string
	Problem              string
	Facts                []fact
	Results              []judge.Result
	Faults               []faultView
	Timeline             *timeline
	Exhibits             []exhibitView
}

type faultView struct {
	What, Target, Injected, Latency, Proof, Healed, HealProof string
	Bad                                                       bool
}

// renderHTML writes one self-contained page: it needs no network, and has no script except for
// its timelines.
func renderHTML(in input) ([]byte, error) {
	tmpl, err := template.New("report").Funcs(template.FuncMap{
		"bound":  boundText,
		"inputs": inputTexts,
		"css":    verdictClass,
		"share":  sharePercent,
		"anchor": anchor,
		"clock":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"human":  human,
		"lower":  strings.ToLower,
		"plural": plural,
		"prose":  prose,
		"script": script,
		"style":  style,
	}).Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	p := page{Results: in.Results, Headline: headline(in.Results), Reproduce: reproduce(in.Run), Facts: runFacts(in.Run), Legend: legend(in), TimeText: timeText(in.Run), Times: timeRows(in.Run)}
	for _, v := range verdicts {
		if n := count(in.Requirements, v); n > 0 || v == judge.Pass || v == judge.Fail {
			p.Tiles = append(p.Tiles, tile{n, string(v), verdictClass("MUST", v)})
		}
	}
	p.Tables = []table{{"Requirements", groupsOf(in.Requirements, in.Results.Results), true}}
	if len(in.Checks) > 0 {
		p.Tables = append(p.Tables, table{"The harness itself", groupsOf(in.Checks, in.Results.Results), false})
	}
	for _, name := range scenarioNames(in) {
		p.Scenarios = append(p.Scenarios, viewScenario(in, name))
	}
	var buf bytes.Buffer
	if err := tmpl.Execute(&buf, p); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func scenarioNames(in input) []string {
	names := sortedKeys(in.records)
	for _, r := range in.Results.Results {
		if !slices.Contains(names, r.Scenario) {
			names = append(names, r.Scenario)
		}
	}
	slices.Sort(names)
	return names
}

func viewScenario(in input, name string) scenarioView {
	v := scenarioView{Name: name, Anchor: anchor(name), Record: "record/" + url.PathEscape(name) + "/" + record.FileName}
	for _, r := range in.Results.Results {
		if r.Scenario == name {
			v.Results = append(v.Results, r)
		}
	}
	run := in.records[name]
	if run == nil {
		v.Problem = "There is no record of this scenario, so nothing can be drawn."
		v.Record = ""
		return v
	}
	switch {
	case run.Problem != "":
		v.Problem = "The record was cut short or damaged: " + run.Problem
	case run.End.Error != "":
		v.Problem = "The scenario ended early: " + run.End.Error
	case !run.Complete:
		v.Problem = "The record is not complete."
	}
	v.Facts = scenarioFacts(run)
	for _, in := range injectionsOf(run) {
		v.Faults = append(v.Faults, viewFault(in))
	}
	v.Exhibits = viewExhibits(run, v.Results)
	v.Timeline = timelineOf(run, v.Results)
	return v
}

func scenarioFacts(run *record.Run) []fact {
	facts := []fact{
		{"Started", run.Meta.Started.UTC().Format("15:04:05 UTC")},
		{"Length", human(time.Duration(endOf(run)))},
		{"Seed", fmt.Sprint(run.Meta.Seed)},
	}
	for _, s := range run.Steadies {
		value := "reached after " + human(s.V.Took) + " (limit " + human(s.V.Limit) + ")"
		if !s.V.OK {
			value = "not reached within " + human(s.V.Limit) + ": " + strings.Join(s.V.Problems, "; ")
		}
		name := s.V.Phase
		if name == record.SteadyPart {
			name = "of " + s.V.Part
		}
		facts = append(facts, fact{"Steady state " + name, value})
	}
	outcomes := map[record.Outcome]int{}
	traffic := 0
	for _, op := range run.Ops {
		if op.V.Purpose == "" {
			outcomes[op.V.Outcome]++
			traffic++
		}
	}
	if traffic > 0 {
		facts = append(facts, fact{"Traffic", fmt.Sprintf("%s: %d ok, %d refused, %d unknown",
			plural(traffic, "operation"), outcomes[record.OK], outcomes[record.Refused], outcomes[record.Unknown])})
	}
	if len(run.Probes) > 0 {
		failed := 0
		for _, p := range run.Probes {
			if !p.V.OK {
				failed++
			}
		}
		facts = append(facts, fact{"Probes", fmt.Sprintf("%d, %d failed", len(run.Probes), failed)})
	}
	return facts
}

func viewFault(in *injection) faultView {
	v := faultView{What: in.what(), Target: in.target, Injected: "not injected"}
	if f := in.injected; f != nil {
		v.Injected, v.Proof = at(in.began()), f.Proof
		if f.Proven {
			v.Latency = human(time.Duration(in.latency()))
		} else {
			v.Proof, v.Bad = "no proof of effect: "+f.Proof, true
		}
	} else {
		v.Bad = true
	}
	if when, ok := in.ended(); ok {
		v.Healed, v.HealProof = at(when), in.healed.Proof
		if !in.healed.Proven {
			v.HealProof, v.Bad = "no proof of healing: "+in.healed.Proof, true
		}
	} else {
		v.Healed, v.Bad = "not healed", true
	}
	if in.failed != nil {
		v.Proof, v.Bad = strings.TrimSpace(v.Proof+" failed: "+in.failed.Error), true
	}
	return v
}

// legend describes the appearance of bars and lines, with those of the nodes first.
func legend(in input) []legendEntry {
	var entries []legendEntry
	for _, name := range sortedKeys(in.records) {
		run := in.records[name]
		if run == nil {
			continue
		}
		for i, n := range run.Meta.Nodes {
			e := legendEntry{fmt.Sprintf("node n%d", i%nodeColours), n.Name}
			if !slices.Contains(entries, e) {
				entries = append(entries, e)
			}
		}
	}
	return append(entries, legendEntry{"gone", "absent, expired, no answer"}, legendEntry{"partial", "Endpoints and EndpointSlice disagree"},
		legendEntry{"up", "available"}, legendEntry{"down", "failed probes, no leader"},
		legendEntry{"violated", "a guarantee was violated"},
		legendEntry{"injected", "fault in effect"}, legendEntry{"healed", "fault healed"})
}

func worstFirst(reqs []Requirement) []Requirement {
	sorted := slices.Clone(reqs)
	slices.SortStableFunc(sorted, func(a, b Requirement) int { return rank(b.Verdict) - rank(a.Verdict) })
	return sorted
}

func verdictClass(level string, v judge.Verdict) string {
	switch {
	case v == judge.Pass:
		return "pass"
	case broken(level, v):
		return "fail"
	case v == judge.Fail:
		return "info"
	case v == judge.NotApplicable:
		return "na"
	default:
		return "inconclusive"
	}
}

// sharePercent returns the used part of the bound, in per cent from 0 to 100, or -1 without a
// bound or a measured time.
func sharePercent(b *judge.Bound, measured *time.Duration) float64 {
	s := share(judge.Result{Bound: b, MeasuredDuration: measured})
	if s < 0 {
		return -1
	}
	return math.Round(math.Min(s, 1) * 100)
}

func anchor(name string) string { return "scenario-" + url.PathEscape(name) }
