package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"os"
	"path/filepath"
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
	// Took is how long the run took, Settings what its bounds are computed from.
	Took      string
	Settings  []setting
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
	Name, Anchor string
	// Record is the address of the record; empty if the record is not beside the page.
	Record  string
	Problem string
	Facts   []fact
	// Badges have the scenario's verdict on each requirement, of all judges together.
	Badges   []Requirement
	Results  []judge.Result
	Faults   []faultView
	Timeline *timeline
	Exhibits []exhibitView
}

type faultView struct {
	What, Target, Injected, Latency, Proof, Healed, HealProof string
	Bad                                                       bool
}

// renderHTML writes one self-contained page: it needs no network, and has no script except for
// its timelines.
func renderHTML(in input) ([]byte, error) {
	tmpl, err := template.New("report").Funcs(template.FuncMap{
		"bound":    boundText,
		"inputs":   inputTexts,
		"css":      verdictClass,
		"share":    sharePercent,
		"anchor":   anchor,
		"clock":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"human":    human,
		"lower":    strings.ToLower,
		"plural":   Plural,
		"all":      func(others []string) string { return Plural(len(others)+1, "scenario") },
		"many":     func(rows []timeRow) bool { return len(rows) > manyRows },
		"prose":    prose,
		"unbroken": unbroken,
		"script":   script,
		"style":    style,
	}).Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	p := page{Results: in.Results, Headline: in.Headline(), Reproduce: reproduce(in.Run), Took: tookText(in.Run), Settings: clusterSettings(in.Run),
		Facts: runFacts(in.Run), Legend: legend(in), TimeText: timeText(in.Run), Times: timeRows(in.Run)}
	for _, v := range verdicts {
		if n := count(in.Requirements, v); n > 0 || v == judge.Pass || v == judge.Fail {
			p.Tiles = append(p.Tiles, tile{n, string(v), verdictClass("MUST", v)})
		}
	}
	p.Tables = []table{{"Requirements", groupsOf(in, in.Requirements), true}}
	if len(in.Checks) > 0 {
		p.Tables = append(p.Tables, table{"The harness itself", groupsOf(in, in.Checks), false})
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
	v := scenarioView{Name: name, Anchor: anchor(name)}
	for _, r := range in.Results.Results {
		if r.Scenario == name {
			v.Results = append(v.Results, r)
		}
	}
	v.Badges = slices.Concat(Merge(v.Results, nil), Checks(v.Results, nil))
	run := in.records[name]
	if run == nil {
		v.Problem = "There is no record of this scenario, so nothing can be drawn."
		return v
	}
	if _, err := os.Stat(filepath.Join(record.Dir(in.dir, name), record.FileName)); err == nil && in.dir != "" {
		v.Record = "record/" + url.PathEscape(name) + "/" + record.FileName
	}
	switch {
	case run.Problem != "":
		v.Problem = "The record was cut short or damaged: " + run.Problem
	case run.End.Error != "":
		v.Problem = "The scenario stopped early: " + run.End.Error
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
	facts = append(facts, steadyFacts(run)...)
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
			Plural(traffic, "operation"), outcomes[record.OK], outcomes[record.Refused], outcomes[record.Unknown])})
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

// fewSteadies is the maximum number of steady states that each have a line.
const fewSteadies = 3

// steadyFacts describes the steady states. Many that were reached share a line.
func steadyFacts(run *record.Run) (facts []fact) {
	reached := 0
	var longest record.Steady
	for _, s := range run.Steadies {
		switch {
		case !s.V.OK:
			facts = append(facts, fact{steadyName(s.V), "not reached within " + human(s.V.Limit) + ": " + strings.Join(s.V.Problems, "; ")})
		case len(run.Steadies) <= fewSteadies:
			facts = append(facts, fact{steadyName(s.V), "reached after " + human(s.V.Took) + " (limit " + human(s.V.Limit) + ")"})
		default:
			if reached++; reached == 1 || s.V.Took > longest.Took {
				longest = s.V
			}
		}
	}
	if reached > 0 {
		facts = append(facts, fact{"Steady state", fmt.Sprintf("reached %s, after %s at most (%s, limit %s)", Plural(reached, "time"),
			human(longest.Took), strings.TrimPrefix(steadyName(longest), "Steady state "), human(longest.Limit))})
	}
	return facts
}

func steadyName(s record.Steady) string {
	if s.Phase == record.SteadyPart {
		return "Steady state of " + s.Part
	}
	return "Steady state " + s.Phase
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

func verdictClass(level string, v judge.Verdict) string { return displayAt(level, v).class }

// sharePercent returns the used part of the bound, in per cent from 0 to 100, or -1 without a
// bound or a measured time.
func sharePercent(r Requirement) float64 {
	s := share(judge.Result{Bound: r.Bound, MeasuredDuration: r.MeasuredDuration})
	if s < 0 {
		return -1
	}
	return math.Round(math.Min(s, 1) * 100)
}

func anchor(name string) string { return "scenario-" + url.PathEscape(name) }
