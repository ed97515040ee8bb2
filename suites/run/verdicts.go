package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Verdicts are the verdicts on a results directory, with the plan and records they rest on.
type Verdicts struct {
	Plan    *Plan
	Results []judge.Result
	// Certificate is what a certification amounts to; nil for other runs.
	Certificate *reports.Certificate
	records     map[string]*record.Run // by scenario
	glances     map[string]glance      // by scenario with a record
}

// glance is what the description of a run takes from a record.
type glance struct {
	nodes []reports.Node
	spent reports.Spent
	end   time.Time
}

// Verdicts returns verdicts without any results.
func (p *Plan) Verdicts() *Verdicts {
	return &Verdicts{Plan: p, records: map[string]*record.Run{}, glances: map[string]glance{}}
}

// Add adds the results on a scenario, and what the description of the run takes from its record,
// which may be nil.
func (v *Verdicts) Add(s *scenarios.Scenario, results []judge.Result, seen *record.Run) {
	v.Results = append(v.Results, results...)
	if seen != nil {
		v.glances[s.Metadata.Name] = glance{nodesOf(seen), reports.SpentOn(seen), seen.Meta.Started.Add(time.Duration(seen.EndAt))}
	}
}

// Judge judges the records of a results directory, with the caller's own judges in addition to
// the built-in ones. A scenario without a usable record is inconclusive.
func Judge(dir string, own ...judge.Judge) (*Verdicts, error) {
	p, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return p.Judge(dir, own...), nil
}

// Judge judges the records of the plan's run in a results directory.
func (p *Plan) Judge(dir string, own ...judge.Judge) *Verdicts {
	v := p.Verdicts()
	for _, s := range p.Scenarios {
		results, seen := p.JudgeScenario(dir, s, own...)
		v.Add(s, results, seen)
		if seen != nil {
			v.records[s.Metadata.Name] = seen
		}
	}
	return v
}

// JudgeScenario is Judge for one scenario of the plan. It also returns the record; nil if this
// scenario has none.
func (p *Plan) JudgeScenario(dir string, s *scenarios.Scenario, own ...judge.Judge) ([]judge.Result, *record.Run) {
	on := p.Part(s)
	notFor := s.NotFor(on.Cluster.Size())
	run, err := record.Read(record.Dir(dir, s.Metadata.Name))
	switch {
	case err == nil && run.Meta.Run != p.Run:
		return without(s, judge.Inconclusive, fmt.Sprintf("the record of scenario %s is from another run (%s)", s.Metadata.Name, run.Meta.Run), nil), nil
	case err == nil && run.Meta.Scenario != s.Metadata.Name:
		return without(s, judge.Inconclusive, fmt.Sprintf("the record of scenario %s is from another scenario (%s)", s.Metadata.Name, run.Meta.Scenario), nil), nil
	case err == nil:
		results := judge.Evaluate(run, own...)
		if asked := s.Spec.Cluster; !asked.AsTheRun() {
			for i := range results {
				results[i].Evidence = append(results[i].Evidence, "on a cluster that the scenario asked for: "+asked.String())
			}
		}
		return results, run
	case notFor != "":
		return without(s, judge.NotApplicable, notFor, s.MissingFor), nil
	case errors.Is(err, fs.ErrNotExist):
		return without(s, judge.Inconclusive, "scenario "+s.Metadata.Name+" was not run: "+cmp.Or(on.Problem, p.Problem, "the run ended before it"), nil), nil
	default:
		return without(s, judge.Inconclusive, fmt.Sprintf("the record of scenario %s cannot be read: %v", s.Metadata.Name, err), nil), nil
	}
}

// without returns a verdict for each requirement that a scenario without a record would settle,
// including invariants. reasons replace why for single requirements.
func without(s *scenarios.Scenario, verdict judge.Verdict, why string, reasons map[string]string) (results []judge.Result) {
	for _, c := range slices.Concat(s.Experiment().Checks, judge.Invariants()) {
		results = append(results, judge.Result{Requirement: c.Requirement, Level: c.Level, Scenario: s.Metadata.Name,
			Judge: c.Judge, Verdict: verdict, Justified: verdict == judge.NotApplicable && s.ByDesign, Sentence: cmp.Or(reasons[c.Requirement], why)})
	}
	return results
}

// Report describes the run that the verdicts are on.
func (v *Verdicts) Report() reports.Run {
	p := v.Plan
	run := reports.Run{ID: p.Run, Provider: p.Provider, Profile: p.Profile, Seed: p.Seed, Started: p.Started.Round(0), Ended: p.Ended.Round(0),
		Versions: versions(p, p.Cluster), Machine: p.Machine, Command: p.Command, Problem: p.Problem, Certificate: v.Certificate}
	run.NotJudged = v.NotJudged()
	if p.Ended.IsZero() {
		run.Ended, run.Problem = v.cutShort()
	}
	for _, one := range p.Parts {
		settings, _ := clusters.Settings(one.Cluster) // an invalid cluster fails when the plan is made
		c := reports.Cluster{Name: one.Name, Scenarios: one.Scenarios, Versions: versions(p, one.Cluster),
			LoadBalancer: string(one.Cluster.Spec.LoadBalancer.Kind), Disk: string(one.Cluster.Spec.Disk),
			Arguments: ArgumentLines(one.Cluster.Spec.ExtraArgs), Settings: settings.Symbols(), Took: one.Took, Made: one.Made, Problem: one.Problem}
		for _, name := range one.Scenarios {
			if seen, ok := v.glances[name]; ok && c.Nodes == nil {
				c.Nodes = seen.nodes
			}
		}
		run.Clusters = append(run.Clusters, c)
	}
	for _, s := range p.Scenarios {
		seen, ok := v.glances[s.Metadata.Name]
		if !ok {
			continue
		}
		on, spent := p.Part(s), seen.spent
		spent.Work += on.Judging[s.Metadata.Name]
		run.Times = append(run.Times, reports.ScenarioTime{Scenario: s.Metadata.Name, Cluster: on.Name, Spent: spent})
		if run.Nodes == nil || s.Spec.Cluster.AsTheRun() {
			run.Nodes = seen.nodes
		}
	}
	return run
}

// cutShort returns when the last record of a run without an end entry ends, and a message about
// it.
func (v *Verdicts) cutShort() (time.Time, string) {
	last, of := v.Plan.Started, ""
	for _, name := range slices.Sorted(maps.Keys(v.glances)) {
		if end := v.glances[name].end; end.After(last) {
			last, of = end, name
		}
	}
	what := "the run has no record yet"
	if of != "" {
		what = fmt.Sprintf("its last record, of %s, ends at %s", of, last.UTC().Format(time.RFC3339))
	}
	return last.Round(0), "holdfast was killed, or still runs: " + what
}

func nodesOf(run *record.Run) []reports.Node {
	var nodes []reports.Node
	for _, n := range run.Meta.Nodes {
		nodes = append(nodes, reports.Node{Name: n.Name, Address: n.Address, Versions: run.Meta.Versions[n.Name]})
	}
	return nodes
}

func versions(p *Plan, c *clusters.Cluster) reports.Versions {
	return reports.Versions{Kubernetes: c.Spec.KubernetesVersion, Etcd: EtcdVersion(c), Kwok: kwokVersion(c), Holdfast: p.Harness}
}

// JSON returns the text of results.json, as the results of the plan or of another form of it.
func (v *Verdicts) JSON(p *Plan) ([]byte, error) {
	as := *v
	as.Plan = p
	return reports.JSON(reports.New(as.Report(), as.Results, scenarios.Titles()))
}

// Record returns the record of a scenario; nil if there is no usable one.
func (v *Verdicts) Record(scenario string) *record.Run { return v.records[scenario] }

// Write writes the reports to a results directory, as they may be published.
func (v *Verdicts) Write(dir string) error {
	return reports.Write(dir, v.Redacted().Report(), v.Results, v.records, scenarios.Titles())
}

// NotJudged says how many requirements of the catalogue the run does not judge, and why;
// empty if it judges all.
func (v *Verdicts) NotJudged() string {
	judged := map[string]bool{}
	for _, r := range v.Results {
		judged[r.Requirement] = true
	}
	other, none := 0, 0
	for _, r := range scenarios.Requirements() {
		switch {
		case judged[r.ID]:
		case len(scenarios.SettledBy(r)) == 0:
			none++
		default:
			other++
		}
	}
	if other+none == 0 {
		return ""
	}
	why := "that this run does not have (see --profile)"
	if len(v.Plan.Rows) > 0 {
		why = "that the certificate does not need"
	}
	form := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	var parts []string
	if other > 0 {
		parts = append(parts, form(other, "belongs", "belong")+" to scenarios "+why)
	}
	if none > 0 {
		parts = append(parts, form(none, "has", "have")+" no scenario yet")
	}
	return fmt.Sprintf("Of the catalogue's %d requirements %s not judged: %s.", len(scenarios.Requirements()), form(other+none, "was", "were"), strings.Join(parts, ", and "))
}

// ArgumentLines returns the arguments of components, one line per component.
func ArgumentLines(all clusters.ExtraArgs) []string {
	var lines []string
	for _, component := range slices.Sorted(maps.Keys(all)) {
		line := string(component)
		for _, flag := range slices.Sorted(maps.Keys(all[component])) {
			line += " --" + flag + "=" + all[component][flag]
		}
		lines = append(lines, line)
	}
	return lines
}

// EtcdVersion returns the version of the cluster's members, for reports.
func EtcdVersion(c *clusters.Cluster) string {
	return cmp.Or(c.Spec.EtcdVersion, release.EmbeddedEtcd)
}

func kwokVersion(c *clusters.Cluster) string {
	if c.Spec.Workers == 0 {
		return ""
	}
	return release.DefaultKwok
}
