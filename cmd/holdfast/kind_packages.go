package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
)

func newKindPackagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "packages",
		Short: "List the Debian packages that this machine lacks for clusters of kind",
		Long: `Name the Debian packages that this machine lacks for clusters of the kind provider, in
one line, which is empty where it lacks none. Where a Docker engine is found they are
only those with which images are built.`,
		Example: `  apt-get install --no-install-recommends $(holdfast kind packages)
  holdfast kind packages -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutputFlag[[]string](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		problems := engine.Problems()
		if e, err := engine.Find(cmd.Context()); err == nil && e.Reachable() == nil {
			problems = slices.DeleteFunc(problems, func(p engine.Problem) bool { return p.Blocks })
		}
		packages := append([]string{}, engine.Packages(problems)...)
		return output.print(cmd, packages, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Join(packages, " "))
			return err
		})
	}
	return cmd
}
