package certify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Row is what a certificate says of one requirement.
type Row struct {
	ID    string `json:"id"`
	Level string `json:"level"`
	// Verdict is the worst of all experiments. A row that passed in them is inconclusive if
	// there were too few of them, or if a node was never hit. An invariant must have failed in
	// none and passed in enough, and in one of each scenario in which it was ever inconclusive.
	Verdict judge.Verdict `json:"verdict"`
	// Justified means that a row does not apply because of the cluster's design. One that
	// does not apply because something cannot be tested here is not justified.
	Justified bool `json:"justified,omitempty"`
	// Experiments is in how many experiments it passed, Victims which nodes their faults hit.
	Experiments int      `json:"experiments"`
	Victims     []string `json:"victims"`
	// LeftOut are scenarios that settle the row too and could not be run here, each with the reason
	// that the maker of the certificate gives.
	LeftOut  []string `json:"leftOut,omitempty"`
	Bound    string   `json:"bound,omitempty"`
	Measured string   `json:"measured,omitempty"`
	Sentence string   `json:"sentence"`
}

// say takes the words of a row from the merged results.
func (r *Row) say(merged reports.Requirement) {
	r.Measured, r.Sentence, r.Bound = merged.Measured, merged.Sentence, ""
	if merged.Bound != nil {
		r.Bound = merged.Bound.String()
	}
}

// holds reports whether a certificate may have the row.
func (r Row) holds() bool { return r.Verdict == judge.Pass || r.Justified }

// Outcome is what the experiments of a certification amount to.
type Outcome struct {
	// Class is must, conformance, observed or partial; see Class.
	Class string `json:"class"`
	// Certified reports whether every row holds, and one of them passed. An observation certifies
	// nothing.
	Certified bool  `json:"certified"`
	Rows      []Row `json:"rows"`
	// Judgement says it in a sentence.
	Judgement string `json:"judgement"`
}

// ExitCode is the program's: 0 certified, or observed without anything inconclusive; 1 a row
// failed, 3 else.
func (o *Outcome) ExitCode() int {
	has := func(v judge.Verdict) bool {
		return slices.ContainsFunc(o.Rows, func(r Row) bool { return r.Verdict == v })
	}
	switch {
	case has(judge.Fail):
		return reports.ExitFail
	case o.Certified, o.Class == "observed" && !has(judge.Inconclusive):
		return reports.ExitPass
	}
	return reports.ExitInconclusive
}

// experiment is one scenario of a plan with its results.
type experiment struct {
	scenario *scenarios.Scenario
	results  []judge.Result
	hit      []string // nodes
}

// certificate is the outcome as reports show it.
func (o *Outcome) certificate() *reports.Certificate {
	c := &reports.Certificate{Certified: o.Certified, Judgement: o.Judgement, ExitCode: o.ExitCode()}
	for _, r := range o.Rows {
		c.Rows = append(c.Rows, r.ID)
		// An observation certifies nothing, and states what could be seen.
		if !r.holds() && (o.Class != "observed" || r.Verdict != judge.NotApplicable) {
			c.Open = append(c.Open, fmt.Sprintf("%s is %s: %s", r.ID, r.Verdict, r.Sentence))
		}
	}
	return c
}

// Judge derives the outcome of a certification from the verdicts on its plan, and adds it to them
// for their reports.
func Judge(v *run.Verdicts) *Outcome {
	byScenario := map[string][]judge.Result{}
	for _, r := range v.Results {
		byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
	}
	var all []experiment
	for _, s := range v.Plan.Scenarios {
		all = append(all, experiment{s, byScenario[s.Metadata.Name], hit(v.Record(s.Metadata.Name), nodesOf(v.Plan))})
	}
	o := outcome(v.Plan, all)
	v.Certificate = o.certificate()
	return o
}

// nodesOf returns the names of the control-plane nodes in a plan.
func nodesOf(p *run.Plan) []string { return namesOf(p.Cluster.Nodes()) }

func namesOf(nodes []clusters.Node) []string {
	return framework.Names(nodes, func(n clusters.Node) string { return n.Name })
}

// hit returns the control-plane nodes that a record proves to have been hit by its faults or to
// have died, under their names in the plan: kind names the nodes of each cluster after it.
func hit(seen *record.Run, planned []string) (nodes []string) {
	if seen == nil {
		return nil
	}
	add := func(name string) {
		i := slices.IndexFunc(seen.Meta.Nodes, func(n record.Node) bool { return n.Name == name })
		if i >= 0 && i < len(planned) && !slices.Contains(planned, name) {
			name = planned[i]
		}
		nodes = append(nodes, name)
	}
	for _, f := range seen.Faults {
		if f.V.Phase == record.FaultInjected && f.V.Proven {
			for _, n := range f.V.Nodes {
				add(n)
			}
			if f.V.Node != "" {
				add(f.V.Node)
			}
		}
	}
	for _, n := range seen.Nodes {
		if n.V.Phase == record.NodeLost {
			add(n.V.Node.Name)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func outcome(p *run.Plan, all []experiment) *Outcome {
	o := &Outcome{Class: Class(p.Rows, ProfileOf(p))}
	o.Certified = o.Class != "observed"
	nodes := nodesOf(p)
	counts, left := map[judge.Verdict]int{}, map[string]bool{}
	for _, id := range withInvariants(p.Rows, o.Class, all) {
		r := rowOf(id, all, nodes, max(Turns, len(nodes)))
		o.Certified = o.Certified && r.holds()
		counts[r.Verdict]++
		o.Rows = append(o.Rows, r)
		for _, one := range r.LeftOut {
			left[one] = true
		}
	}
	var parts []string
	for _, verdict := range []judge.Verdict{judge.Fail, judge.Inconclusive, judge.NotApplicable, judge.Pass} {
		if counts[verdict] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[verdict], verdict))
		}
	}
	if o.Certified && counts[judge.Pass] == 0 {
		o.Certified = false
		parts = append(parts, "none was tested")
	}
	if len(left) > 0 {
		parts = append(parts, fmt.Sprintf("scenarios that could not be run: %d", len(left)))
	}
	what := map[string]string{"must": "all MUST rows that a scenario settles", "conformance": "the rows that " + Profile + " requires", "observed": "the rows that need no fault",
		"partial": "some rows, fewer than " + Profile + " requires"}[o.Class]
	switch {
	case o.Class == "observed":
		o.Judgement = fmt.Sprintf("observed, not a conformance certificate: of %s, %s", what, strings.Join(parts, ", "))
	case o.Certified:
		o.Judgement = fmt.Sprintf("certified for %s: %s", what, strings.Join(parts, ", "))
	default:
		o.Judgement = fmt.Sprintf("not certified: of %s, %s", what, strings.Join(parts, ", "))
	}
	return o
}

// withInvariants returns the rows and the invariants that the experiments judged: an experiment
// that violates an invariant certifies nothing. The conformance profile needs each invariant, also
// one that could not be tested.
func withInvariants(rows []string, class string, all []experiment) []string {
	ids := slices.Clone(rows)
	for _, r := range scenarios.Requirements() {
		if r.Invariant() && class == "conformance" {
			ids = append(ids, r.ID)
		}
	}
	for _, e := range all {
		for _, r := range e.results {
			if invariant(r.Requirement) && r.Verdict != judge.NotApplicable {
				ids = append(ids, r.Requirement)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// rowOf derives the row for a requirement that must be settled in at least turns experiments of
// each scenario, with each of the nodes as the victim.
func rowOf(id string, all []experiment, nodes []string, turns int) Row {
	var results []judge.Result
	byDesign, away := true, 0
	row := Row{ID: id, Victims: []string{}}
	missed := map[string][]string{} // nodes that no experiment of a scenario hit
	passes := map[string]int{}      // experiments in which it passed, by scenario
	open := map[string]int{}        // experiments in which it was inconclusive, by scenario
	var passed []judge.Result       // of experiments in which it passed
	for _, e := range all {
		about := slices.DeleteFunc(slices.Clone(e.results), func(r judge.Result) bool { return r.Requirement != id })
		if len(about) == 0 {
			continue
		}
		results = append(results, about...)
		merged := reports.Merge(about, nil)[0]
		base := cmp.Or(e.scenario.Of, e.scenario.Metadata.Name)
		switch merged.Verdict {
		case judge.NotApplicable:
			away++
			design := e.scenario.ByDesign && e.scenario.Missing != "" // it was not run
			byDesign = byDesign && design
			if left := base + ": " + cmp.Or(e.scenario.MissingFor[id], e.scenario.Missing, merged.Sentence); !design && !invariant(id) && !slices.Contains(row.LeftOut, left) {
				row.LeftOut = append(row.LeftOut, left)
			}
			continue
		case judge.Pass:
			row.Experiments++
			passes[base]++
			passed = append(passed, about...)
		case judge.Inconclusive:
			open[base]++
		}
		row.Victims = append(row.Victims, e.hit...)
		if aimed(e.scenario) && !invariant(id) {
			if _, ok := missed[base]; !ok {
				missed[base] = nodes
			}
			missed[base] = slices.DeleteFunc(slices.Clone(missed[base]), func(n string) bool { return slices.Contains(e.hit, n) })
		}
	}
	if len(results) == 0 {
		row.Verdict, row.Sentence = judge.Inconclusive, "no experiment of the run settles it"
		return row
	}
	slices.Sort(row.Victims)
	row.Victims = slices.Compact(row.Victims)
	merged := reports.Merge(results, nil)[0]
	row.Level, row.Verdict = merged.Level, merged.Verdict
	row.say(merged)
	if invariant(id) {
		if row.Verdict != judge.Fail {
			row.seen(passed, passes, open, turns)
		}
		return row
	}
	row.Justified = row.Verdict == judge.NotApplicable && byDesign && away > 0
	if row.Verdict != judge.Pass {
		return row
	}
	for _, base := range slices.Sorted(maps.Keys(passes)) {
		if n := passes[base]; n < turns {
			row.Verdict, row.Sentence = judge.Inconclusive, fmt.Sprintf("%s passed in %d of at least %d experiments of %s", id, n, turns, base)
		}
	}
	for _, base := range slices.Sorted(maps.Keys(missed)) {
		if left := missed[base]; len(left) > 0 {
			row.Verdict, row.Sentence = judge.Inconclusive, fmt.Sprintf("no experiment of %s hit %s", base, strings.Join(left, ", "))
		}
	}
	return row
}

// seen settles the row of an invariant that failed in no experiment. Every experiment judges it, as
// far as it has data for it. Where it was inconclusive a violation may hide, which only another
// experiment of the same scenario can rule out.
func (r *Row) seen(passed []judge.Result, passes, open map[string]int, turns int) {
	if r.Experiments < turns {
		r.Verdict, r.Sentence = judge.Inconclusive, fmt.Sprintf("%s passed in %d of at least %d experiments: %s", r.ID, r.Experiments, turns, r.Sentence)
		return
	}
	times := 0
	for _, base := range slices.Sorted(maps.Keys(open)) {
		if passes[base] == 0 {
			r.Verdict, r.Sentence = judge.Inconclusive, fmt.Sprintf("%s was inconclusive in every experiment of %s: %s", r.ID, base, r.Sentence)
			return
		}
		times += open[base]
	}
	r.Verdict = judge.Pass
	if times > 0 {
		r.say(reports.Merge(passed, nil)[0])
		r.Sentence += fmt.Sprintf(" Inconclusive in %d of %d experiments.", times, r.Experiments+times)
	}
}

func invariant(id string) bool {
	r, ok := scenarios.RequirementByID(id)
	return ok && r.Invariant()
}

// aimed reports whether a scenario's faults hit nodes of its own choice, so that each node can be
// its victim.
func aimed(s *scenarios.Scenario) bool {
	nodes := false
	for _, step := range s.Spec.Timeline {
		if step.Inject == nil {
			continue
		}
		named, err := fault.Names(step.Inject.Target)
		if err != nil || named.Role == "serving" || named.Zone != "" {
			return false
		}
		nodes = nodes || named.Role != "" || named.Number > 0
	}
	return nodes
}

// Print writes the outcome as a table. Its texts may be those of a bundle's maker.
func (o *Outcome) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REQUIREMENT\tVERDICT\tEXPERIMENTS\tVICTIMS\tMEASURED\tBOUND")
	for _, r := range o.Rows {
		verdict := string(r.Verdict)
		if r.Justified {
			verdict += " (by design)"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", reports.OneLine(r.ID), verdict, r.Experiments, dash(strings.Join(r.Victims, " ")), dash(r.Measured), dash(r.Bound))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var left []string
	rows := map[string][]string{} // by scenario left out
	for _, r := range o.Rows {
		for _, one := range r.LeftOut {
			if rows[one] == nil {
				left = append(left, one)
			}
			rows[one] = append(rows[one], r.ID)
		}
	}
	for _, one := range left {
		name, why, _ := strings.Cut(one, ": ")
		fmt.Fprintf(w, "not run: %s, which settles %s too: %s\n", reports.OneLine(name), reports.OneLine(strings.Join(rows[one], ", ")), reports.OneLine(why))
	}
	for _, r := range o.Rows {
		if !r.holds() {
			fmt.Fprintf(w, "%s: %s\n", reports.OneLine(r.ID), reports.OneLine(r.Sentence))
		}
	}
	_, err := fmt.Fprintln(w, reports.OneLine(o.Judgement))
	return err
}

// dash returns a cell of a table.
func dash(s string) string { return cmp.Or(reports.OneLine(s), "-") }
