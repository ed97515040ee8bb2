package run

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Intensity returns the traffic intensity of a profile: full is for machines with time to spare.
func Intensity(profile string) int {
	if profile == "full" {
		return 3
	}
	return 1
}

// Choose returns the scenarios of files, and those of the catalogue that match one of the globs
// or, without files and globs, belong to a profile.
func Choose(profile string, globs, files []string, options ...scenarios.Option) ([]*scenarios.Scenario, error) {
	var chosen []*scenarios.Scenario
	names := map[string]string{}
	for _, f := range files {
		s, err := scenarios.Load(f, options...)
		if err != nil {
			return nil, err
		}
		if other := names[s.Metadata.Name]; other != "" {
			return nil, fmt.Errorf("%s and %s both contain a scenario %s; names must differ", other, f, s.Metadata.Name)
		}
		names[s.Metadata.Name] = f
		chosen = append(chosen, s)
	}
	if len(files) > 0 && len(globs) == 0 {
		return chosen, nil
	}
	if !slices.Contains(scenarios.Profiles, profile) {
		return nil, fmt.Errorf("--profile %s: want one of %s%s", profile, strings.Join(scenarios.Profiles, ", "), nearest.Meant(scenarios.Profiles, profile))
	}
	selected, err := Select(scenarios.All(), profile, globs)
	if err != nil {
		return nil, err
	}
	for _, s := range selected {
		if f := names[s.Metadata.Name]; f != "" {
			return nil, fmt.Errorf("%s contains a scenario %s, which already exists; names must differ", f, s.Metadata.Name)
		}
	}
	return append(chosen, selected...), nil
}

// Skip removes the scenarios whose names match one of the globs.
func Skip(chosen []*scenarios.Scenario, globs []string) ([]*scenarios.Scenario, error) {
	if len(globs) == 0 {
		return chosen, nil
	}
	skipped, err := Select(chosen, "", globs)
	if err != nil {
		return nil, fmt.Errorf("--skip: %w", err)
	}
	left := slices.DeleteFunc(slices.Clone(chosen), func(s *scenarios.Scenario) bool { return slices.Contains(skipped, s) })
	if len(left) == 0 {
		return nil, fmt.Errorf("--skip leaves no scenario")
	}
	return left, nil
}

// InTurn repeats each scenario once per control-plane node of the cluster, and at least atLeast
// times, each time with the next node as its victim. It repeats only those that which selects, by
// the number of nodes, and all of them if which is nil; the others run once. With an external etcd
// no scenario is repeated, since the nodes are not alike.
func InTurn(c *clusters.Cluster, chosen []*scenarios.Scenario, atLeast int, which func(*scenarios.Scenario, int) bool) []*scenarios.Scenario {
	if i := c.Spec.Inventory; i != nil && i.ExternalEtcd() {
		return chosen
	}
	nodes := len(c.Spec.Nodes)
	var all []*scenarios.Scenario
	for _, s := range chosen {
		if s.NotFor(nodes) != "" || which != nil && !which(s, nodes) {
			all = append(all, s)
			continue
		}
		for victim := range max(nodes, atLeast) {
			all = append(all, s.InTurn(victim+1, nodes))
		}
	}
	return all
}

// Merged names the requirements that several of the user's own files settle: they have one
// verdict, the worst.
func Merged(chosen []*scenarios.Scenario) (notes []string) {
	files := map[string][]string{}
	for _, s := range chosen {
		for _, r := range s.Spec.Requirements {
			_, known := scenarios.RequirementByID(r.ID)
			if s.File() != "" && !known && !slices.Contains(files[r.ID], s.File()) {
				files[r.ID] = append(files[r.ID], s.File())
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if named := files[id]; len(named) > 1 {
			notes = append(notes, fmt.Sprintf("%s all settle %s: there is one verdict on it, the worst of theirs; give one of them another ID if it means another requirement", strings.Join(named, " and "), id))
		}
	}
	return notes
}

// Select returns the scenarios of a profile whose name matches one of the
// globs; no glob matches all.
func Select(all []*scenarios.Scenario, profile string, globs []string) ([]*scenarios.Scenario, error) {
	var chosen []*scenarios.Scenario
	matched := make([]bool, len(globs))
	for _, s := range all {
		match := len(globs) == 0 && s.In(profile)
		for i, g := range globs {
			ok, err := filepath.Match(g, s.Metadata.Name)
			if err != nil {
				return nil, fmt.Errorf("%q is not a pattern: %w", g, err)
			}
			match, matched[i] = match || ok, matched[i] || ok
		}
		if match {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 || slices.Contains(matched, false) {
		names := framework.Names(all, func(s *scenarios.Scenario) string { return s.Metadata.Name })
		what := "profile " + profile
		if i := slices.Index(matched, false); i >= 0 {
			what = fmt.Sprintf("%q", globs[i])
			if meant := nearest.Meant(names, globs[i]); meant != "" {
				return nil, fmt.Errorf("no scenario matches %s%s", what, meant)
			}
		}
		return nil, fmt.Errorf("no scenario matches %s; available: %s", what, strings.Join(names, ", "))
	}
	return chosen, nil
}

// Own reports whether a result is on one of the requirements that the scenario itself settles, not
// on an invariant or the harness, which every scenario settles.
func Own(r judge.Result) bool {
	known, _ := scenarios.RequirementByID(r.Requirement)
	return !known.Invariant() && r.Judge != "harness"
}
