package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
)

func newKindPackagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "packages",
		Short: "List the missing Debian packages for kind clusters",
		Long: `Print, in one line, the Debian packages that clusters of the kind provider need and that are
missing here; the line is empty if none is missing. If a Docker engine is found, only
those required to build images are listed.`,
		Example: `  apt-get install --no-install-recommends $(holdfast kind packages)
  holdfast kind packages -o json`,
	}
	output := addOutputFlag[[]string](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		problems := engine.Problems()
		if e, err := engine.Find(cmd.Context()); err == nil && e.Reachable() == nil {
			problems = slices.DeleteFunc(problems, func(p engine.Problem) bool { return p.Blocks })
		}
		packages := append([]string{}, engine.Packages(problems)...)
		return output.printf(cmd, packages, "%s\n", strings.Join(packages, " "))
	}
	return cmd
}
