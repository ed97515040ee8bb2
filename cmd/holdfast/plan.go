package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites"
)

// planFile is the plan of a run in its results directory.
const planFile = "plan.json"

// plan is what a run is to do: workers read it, and so do later commands on
// the results directory.
type plan struct {
	Run      string    `json:"run"`
	Provider string    `json:"provider"`
	Profile  string    `json:"profile"`
	Seed     uint64    `json:"seed"`
	Harness  string    `json:"harness"`
	Started  time.Time `json:"started"`
	Command  []string  `json:"command"`
	// Cluster is the run's own; those of parts are it with what their scenarios
	// ask for.
	Cluster *clusters.Cluster `json:"cluster"`
	// Attach tells that Cluster is one that somebody else has made and that stays.
	Attach bool `json:"attach,omitempty"`
	// Parts are begun in turn, as many at a time as Parallel says. Expected is about
	// how long that takes, in nanoseconds.
	Parts     []part                `json:"parts"`
	Parallel  int                   `json:"parallel"`
	Expected  time.Duration         `json:"expected"`
	Scenarios []*scenarios.Scenario `json:"scenarios"`
	Machine   reports.Machine       `json:"machine"`
	Problem   string                `json:"problem,omitempty"` // why it ended early
	Ended     time.Time             `json:"ended,omitzero"`
}

// part is what is run on one cluster, and what came of it. Times are nanoseconds.
type part struct {
	suites.Part
	Problem string `json:"problem,omitempty"` // why it ended early
	// Took is the time from the start of its worker to the end; Made is what making
	// its cluster, or clusters, took of that.
	Took time.Duration `json:"took,omitempty"`
	Made time.Duration `json:"made,omitempty"`
	// Judging is how long it took to judge each scenario.
	Judging map[string]time.Duration `json:"judging,omitempty"`
}

// divide spreads the plan's scenarios over clusters, so many at a time.
func (p *plan) divide(parallel int) error {
	provider, err := providerNamed(p.Provider)
	if err != nil {
		return err
	}
	creation := clusters.Creation(provider)
	if p.Attach {
		creation = 0
	}
	parts, err := suites.Plan(p.Cluster, p.Scenarios, parallel, creation)
	for _, one := range parts {
		p.Parts = append(p.Parts, part{Part: one})
	}
	p.Parallel = max(min(parallel, len(parts)), 1)
	p.Expected = slices.Max(append(suites.Ends(parts, p.Parallel), 0))
	return err
}

// part returns the part with a scenario, the last one where it was repeated. One that
// applies to no cluster of this size is in none, nor is any in the plan of a holdfast
// that ran all on one cluster.
func (p *plan) part(s *scenarios.Scenario) part {
	for _, one := range slices.Backward(p.Parts) {
		if slices.Contains(one.Scenarios, s.Metadata.Name) {
			return one
		}
	}
	c, err := suites.Cluster(p.Cluster, s.Spec.Cluster)
	if err != nil {
		c = p.Cluster // the plan would not have been made
	}
	return part{Part: suites.Part{Cluster: c}}
}

// scenario returns a scenario of the plan.
func (p *plan) scenario(name string) (*scenarios.Scenario, error) {
	i := slices.IndexFunc(p.Scenarios, func(s *scenarios.Scenario) bool { return s.Metadata.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the plan of the run has no scenario %q", name)
	}
	return p.Scenarios[i], nil
}

func savePlan(dir string, p *plan) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		// Whole or not at all: later commands cannot do without it.
		path := filepath.Join(dir, planFile)
		if err = os.WriteFile(path+".tmp", b, 0o644); err == nil {
			err = os.Rename(path+".tmp", path)
		}
	}
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("writing the plan of the run: %w; free some space or name another directory with --out", err)
	}
	if err != nil {
		return fmt.Errorf("writing the plan of the run: %w", err)
	}
	return nil
}

func loadPlan(dir string) (*plan, error) {
	path := filepath.Join(dir, planFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError("%s is no results directory of holdfast run: %w", dir, err)
	}
	var p plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, usageError("%s: %w", path, err)
	}
	if p.Cluster == nil || len(p.Scenarios) == 0 {
		return nil, usageError("%s: no cluster or no scenario in it", path)
	}
	return &p, nil
}

func printPlan(cmd *cobra.Command, p *plan, output outputFormat) error {
	if output == outputJSON {
		return writeJSON(cmd.OutOrStdout(), p)
	}
	w := cmd.OutOrStdout()
	for _, one := range p.Parts {
		spec := one.Cluster.Spec
		settings, err := clusters.Settings(one.Cluster)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		fmt.Fprintf(w, "%s: provider %s, %d control-plane nodes, Kubernetes %s, balancer %s, disk %s, %d workers; about %s in all\n",
			one.Name, p.Provider, len(spec.Nodes), spec.KubernetesVersion, spec.LoadBalancer.Kind, spec.Disk, spec.Workers, one.Expected.Round(time.Second))
		for _, line := range argumentLines(spec.ExtraArgs) {
			fmt.Fprintf(w, "  %s\n", line)
		}
		for _, name := range one.Scenarios {
			s, err := p.scenario(name)
			if err != nil {
				return err
			}
			printScenario(w, s, s.Expected(settings))
		}
		fmt.Fprintln(w)
	}
	for _, s := range p.Scenarios {
		if why := s.NotFor(len(p.part(s).Cluster.Spec.Nodes)); why != "" {
			fmt.Fprintf(w, "%s does not apply: %s\n\n", s.Metadata.Name, why)
		}
	}
	_, err := fmt.Fprintf(w, "expected time: %s for %s on %s, %d at a time; nothing has been touched\n",
		p.Expected.Round(time.Second), plural(len(p.Scenarios), "scenario"), plural(len(p.Parts), "cluster"), p.Parallel)
	return err
}

// argumentLines are the arguments of components, a line for each component.
func argumentLines(all clusters.ExtraArgs) []string {
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

func printScenario(w io.Writer, s *scenarios.Scenario, expected time.Duration) {
	fmt.Fprintf(w, "\n%s (about %s)\n", s.Metadata.Name, expected.Round(time.Second))
	if s.Spec.Summary != "" {
		fmt.Fprintf(w, "  %s\n", s.Spec.Summary)
	}
	for _, step := range s.Spec.Timeline {
		if in := step.Inject; in != nil {
			fmt.Fprintf(w, "  touches: %s of %s\n", in.Fault, in.Target)
		}
	}
	for _, r := range s.Spec.Requirements {
		bound := ""
		if r.Bound != "" {
			bound = ", bound " + r.Bound
		}
		fmt.Fprintf(w, "  settles: %s by %s%s\n", r.ID, r.Judge, bound)
	}
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
