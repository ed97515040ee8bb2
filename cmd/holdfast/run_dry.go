package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func printPlan(cmd *cobra.Command, provider clusters.Provider, p *run.Plan, asJSON bool) error {
	if asJSON {
		dry := *p
		dry.Footprint = footprint(provider, p)
		return reports.WriteJSON(cmd.OutOrStdout(), &dry)
	}
	w := cmd.OutOrStdout()
	here := rememberedPace(p.Provider)
	for _, one := range p.Parts {
		spec := one.Cluster.Spec
		settings, err := clusters.Settings(one.Cluster)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		fmt.Fprintf(w, "%s: provider %s, %s, Kubernetes %s, balancer %s, disk %s, %d workers; about %s in all\n",
			one.Name, p.Provider, reports.Plural(len(spec.Nodes), "control-plane node"), spec.KubernetesVersion, spec.LoadBalancer.Kind, spec.Disk, spec.Workers, here.of(one.Expected).Round(time.Second))
		for _, line := range run.ArgumentLines(spec.ExtraArgs) {
			fmt.Fprintf(w, "  %s\n", line)
		}
		for _, name := range one.Scenarios {
			s, err := p.Scenario(name)
			if err != nil {
				return err
			}
			if err := printScenario(w, s, settings, here.of(s.Expected(settings)), leash(provider, p)); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	if lines := footprint(provider, p); len(lines) > 0 {
		for _, line := range lines {
			fmt.Fprintf(w, "with the owner's consent: %s\n", line)
		}
		fmt.Fprintln(w)
	}
	for _, s := range p.Scenarios {
		if why := s.NotFor(p.Part(s).Cluster.Size()); why != "" {
			fmt.Fprintf(w, "%s does not apply: %s\n\n", s.Metadata.Name, why)
		}
	}
	_, err := fmt.Fprintf(w, "expected time: %s for %s on %s, %d at a time; nothing has been touched\n",
		here.of(p.Expected).Round(time.Second), units(p), reports.Plural(len(p.Parts), "cluster"), p.Parallel)
	return err
}

// units counts the scenarios of a plan, or the experiments of a certification, which repeats them.
func units(p *run.Plan) string {
	kind := "scenario"
	if len(p.Rows) > 0 {
		kind = "experiment"
	}
	return reports.Plural(len(p.Scenarios), kind)
}

// footprint returns what a run would have on the nodes of a cluster that it takes over.
func footprint(provider clusters.Provider, p *run.Plan) []string {
	if f, ok := provider.(clusters.Footprinter); ok && p.Attach {
		return f.Footprint(p.Cluster)
	}
	return nil
}

// leash returns after how long nodes heal faults without requests from the run; 0 if only the
// faults' own times end them.
func leash(provider clusters.Provider, p *run.Plan) time.Duration {
	if l, ok := provider.(clusters.Leasher); ok && p.Attach {
		return l.Leash()
	}
	return 0
}

func printScenario(w io.Writer, s *scenarios.Scenario, settings framework.Settings, expected, leash time.Duration) error {
	fmt.Fprintf(w, "\n%s (about %s)\n", s.Metadata.Name, expected.Round(time.Second))
	if s.Spec.Summary != "" {
		fmt.Fprintf(w, "  %s\n", s.Spec.Summary)
	}
	for i, step := range s.Spec.Timeline {
		in := step.Inject
		if in == nil {
			if what := changes(step.Action); what != "" {
				fmt.Fprintf(w, "  runs %s\n", what)
			}
			continue
		}
		ttl, err := s.Experiment().TTL(i, settings)
		if err != nil {
			return fmt.Errorf("scenario %s: the time to live of %s: %w", s.Metadata.Name, in.Fault, err)
		}
		fmt.Fprintf(w, "  injects %s on %s%s (time to live %s", in.Fault, in.Target, given(in.Params), ttl.Round(time.Second))
		if leash > 0 {
			fmt.Fprintf(w, "; healed %s after holdfast's last request", min(leash, ttl).Round(time.Second))
		}
		fmt.Fprintln(w, ")")
	}
	for _, r := range s.Spec.Requirements {
		bound := ""
		if r.Bound != "" {
			bound = ", bound " + r.Bound
		}
		fmt.Fprintf(w, "  settles: %s by %s%s\n", r.ID, r.Judge, bound)
	}
	return nil
}

// given lists the parameters of a fault, as inject takes them.
func given(params map[string]string) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(params)) {
		text += " " + name + "=" + params[name]
	}
	return text
}

// changes describes what an action changes of the cluster; empty if it changes nothing.
func changes(a *engine.Action) string {
	if a == nil || !engine.ChangesNodes(a.Name) && a.Name != "add-member" {
		return ""
	}
	text := a.Name
	switch {
	case a.Node != "":
		text += " on " + a.Node
	case a.Name == "add-node":
		text += " " + a.ID
	case a.Fault != "":
		text += " during " + a.Fault
	}
	if a.To != "" {
		text += " to " + a.To
	}
	return text
}
