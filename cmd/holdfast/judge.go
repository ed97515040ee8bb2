package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// derived are the verdicts on a results directory, with what they rest on.
type derived struct {
	plan    *plan
	results []judge.Result
	records map[string]*record.Run
}

// derive judges the records of a results directory. A scenario without a usable
// record is inconclusive.
func derive(dir string) (*derived, error) {
	p, err := loadPlan(dir)
	if err != nil {
		return nil, err
	}
	return deriveFrom(p, dir)
}

func deriveFrom(p *plan, dir string) (*derived, error) {
	d := &derived{plan: p, records: map[string]*record.Run{}}
	for _, s := range p.Scenarios {
		on := p.part(s)
		notFor := s.NotFor(len(on.Cluster.Spec.Nodes))
		run, err := record.Read(record.Dir(dir, s.Metadata.Name))
		switch {
		case err == nil && run.Meta.Run != p.Run:
			d.without(s, judge.Inconclusive, fmt.Sprintf("its record is of another run (%s)", run.Meta.Run))
		case err == nil && run.Meta.Scenario != s.Metadata.Name:
			d.without(s, judge.Inconclusive, fmt.Sprintf("its record is of another scenario (%s)", run.Meta.Scenario))
		case err == nil:
			d.records[s.Metadata.Name] = run
			d.results = append(d.results, judge.Evaluate(run)...)
		case notFor != "":
			d.without(s, judge.NotApplicable, notFor)
		case errors.Is(err, fs.ErrNotExist):
			d.without(s, judge.Inconclusive, "the scenario was not run: "+cmp.Or(on.Problem, p.Problem, "the run ended before it"))
		default:
			d.without(s, judge.Inconclusive, "its record cannot be read: "+err.Error())
		}
	}
	return d, nil
}

// without adds a verdict for each requirement of a scenario that has no record.
func (d *derived) without(s *scenarios.Scenario, verdict judge.Verdict, why string) {
	for _, c := range s.Experiment().Checks {
		d.results = append(d.results, judge.Result{Requirement: c.Requirement, Level: c.Level, Scenario: s.Metadata.Name,
			Judge: c.Judge, Verdict: verdict, Sentence: why})
	}
}

// report says which run the verdicts are of.
func (d *derived) report() reports.Run {
	p := d.plan
	run := reports.Run{ID: p.Run, Provider: p.Provider, Profile: p.Profile, Seed: p.Seed, Started: p.Started, Ended: p.Ended,
		Versions: versions(p, p.Cluster), Machine: p.Machine, Command: p.Command, Problem: p.Problem}
	for _, one := range p.Parts {
		settings, _ := clusters.Settings(one.Cluster) // the plan would not have been made
		c := reports.Cluster{Name: one.Name, Scenarios: one.Scenarios, Versions: versions(p, one.Cluster),
			LoadBalancer: string(one.Cluster.Spec.LoadBalancer.Kind), Disk: string(one.Cluster.Spec.Disk),
			Arguments: argumentLines(one.Cluster.Spec.ExtraArgs), Settings: settings.Symbols(), Took: one.Took, Made: one.Made, Problem: one.Problem}
		for _, name := range one.Scenarios {
			if seen := d.records[name]; seen != nil && c.Nodes == nil {
				c.Nodes = nodesOf(seen)
			}
		}
		run.Clusters = append(run.Clusters, c)
	}
	for _, s := range p.Scenarios {
		seen := d.records[s.Metadata.Name]
		if seen == nil {
			continue
		}
		on := p.part(s)
		spent := reports.SpentOn(seen)
		spent.Work += on.Judging[s.Metadata.Name]
		run.Times = append(run.Times, reports.ScenarioTime{Scenario: s.Metadata.Name, Cluster: on.Name, Spent: spent})
		if run.Nodes == nil || s.Spec.Cluster.AsTheRun() {
			run.Nodes = nodesOf(seen)
		}
	}
	return run
}

func nodesOf(run *record.Run) []reports.Node {
	var nodes []reports.Node
	for _, n := range run.Meta.Nodes {
		nodes = append(nodes, reports.Node{Name: n.Name, Address: n.Address, Versions: run.Meta.Versions[n.Name]})
	}
	return nodes
}

func versions(p *plan, c *clusters.Cluster) reports.Versions {
	return reports.Versions{Kubernetes: c.Spec.KubernetesVersion, Etcd: etcdVersion(c), Kwok: kwokVersion(c), Holdfast: p.Harness}
}

func (d *derived) write(dir string) error {
	return reports.Write(dir, d.report(), d.results, d.records, scenarios.Titles())
}

// announce prints the verdicts and ends the command with their exit code.
func (d *derived) announce(cmd *cobra.Command, dir string, output outputFormat) error {
	results := reports.New(d.report(), d.results, scenarios.Titles())
	var err error
	if output == outputJSON {
		err = writeJSON(cmd.OutOrStdout(), results)
	} else {
		err = reports.Print(cmd.OutOrStdout(), dir, results.All(), isTerminal(cmd.OutOrStdout()))
	}
	if err != nil {
		return err
	}
	if code := reports.ExitCode(d.results); code != exitPass {
		return exitWith(code, nil)
	}
	return nil
}

// only leaves the verdicts on the requirements of these IDs; without any, all.
func (d *derived) only(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	var settled, known []string
	for _, r := range d.results {
		settled = append(settled, r.Requirement)
	}
	for _, r := range scenarios.Requirements() {
		known = append(known, r.ID)
	}
	for _, id := range ids {
		switch {
		case slices.Contains(settled, id):
		case slices.Contains(known, id):
			return usageError("this run does not settle %s; of what it settles, %s come nearest", id, strings.Join(nearest(settled, id, 3), ", "))
		default:
			return usageError("there is no requirement %s; near ones are %s", id, strings.Join(nearest(append(known, settled...), id, 3), ", "))
		}
	}
	d.results = slices.DeleteFunc(d.results, func(r judge.Result) bool { return !slices.Contains(ids, r.Requirement) })
	return nil
}

func newJudgeCommand() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Derive the verdicts again from the record of a run",
		Long: `Derive the verdicts again from the record in a results directory. Nothing is
started and nothing is written; the same record gives the same verdicts.`,
		Example: `  holdfast judge results/20261121-080000
  holdfast judge results/20261121-080000 --requirement HA-EP-003 -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringSliceVar(&only, "requirement", nil, "only these requirements, by ID")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := derive(args[0])
		if err != nil {
			return err
		}
		if err := d.only(only); err != nil {
			return err
		}
		return d.announce(cmd, args[0], *output)
	}
	return cmd
}

func newReportCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "report DIR",
		Short:   "Render the report of a run again from its record",
		Example: `  holdfast report results/20261121-080000`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := derive(args[0])
			if err != nil {
				return err
			}
			if err := d.write(args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(args[0], "report.html"))
			return err
		},
	}
}

func newDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "diff OLD NEW",
		Short:   "Tell what changed between two runs",
		Example: `  holdfast diff results/last-night results/tonight`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var both [2]*reports.Results
			for i, dir := range args {
				var err error
				if both[i], err = reports.Load(dir); err != nil {
					return exitWith(exitUsage, err)
				}
			}
			return reports.PrintDiff(cmd.OutOrStdout(), reports.Diff(both[0], both[1]))
		},
	}
}
