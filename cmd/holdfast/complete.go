package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// values returns the completions for a word.
type values func() []string

func completed(all values) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return all(), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlags registers completions for the flags that a command shares with others.
func completeFlags(cmd *cobra.Command) {
	known := map[string]values{
		"scenario":    scenarioNames,
		"skip":        scenarioNames,
		"profile":     func() []string { return scenarios.Profiles },
		"provider":    func() []string { return strings.Split(providerNames(), ", ") },
		"lb":          clusters.Balancers,
		"requirement": requirementIDs,
		"on":          fault.Examples,
		"judge":       func() []string { return judge.Names() },
		"kubernetes":  func() []string { return versions(release.Kubernetes) },
		"etcd":        func() []string { return versions(release.Etcd) },
		"data":        func() []string { return dataPlaces },
		"disk":        func() []string { return diskKinds },
		"nodes":       func() []string { return []string{"1", "3", "5", "7"} },
		"source":      func() []string { return []string{"auto", "release", "build"} },
		"kind":        kindNames,
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		all := known[f.Name]
		switch {
		case f.Name == "name" && cmd.Name() != "up" && cmd.Name() != "run":
			all = clusterNames
		case f.Name == "provider" && cmd.Name() == "up":
			all = func() []string { return creators }
		case f.Name == "output":
			all = func() []string { return strings.Split(f.Value.Type(), "|") }
		case f.Name == "source" && cmd.Name() != "fetch":
			all = nil
		}
		if all != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completed(all)) // fails only for an unknown flag
		}
	})
}

func scenarioNames() []string {
	return framework.Names(scenarios.All(), func(s *scenarios.Scenario) string { return s.Metadata.Name })
}

func requirementIDs() []string {
	return framework.Names(scenarios.Requirements(), func(r scenarios.Requirement) string { return r.ID })
}

func faultNames() []string {
	return framework.Names(fault.All(), func(f *fault.Fault) string { return f.Name })
}

func clusterNames() []string {
	names, _ := keeper.List()
	return names
}

// versions returns the versions of a product in this machine's cache, and the default.
func versions(p release.Product) []string {
	all := []string{p.Default()}
	if dir, err := release.DefaultCacheDir(); err == nil {
		entries, _ := release.List(dir, false)
		for _, e := range entries {
			if e.Product == p {
				all = append(all, e.Version)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func completeFault(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return faultNames(), cobra.ShellCompDirectiveNoFileComp
	}
	f, err := fault.Find(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var params []string
	for _, name := range f.ParamNames() {
		if !slices.ContainsFunc(args[1:], func(given string) bool { return strings.HasPrefix(given, name+"=") }) {
			params = append(params, name+"=")
		}
	}
	return params, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
