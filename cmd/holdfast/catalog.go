package main

import (
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// catalogEntry is a requirement and what settles it.
type catalogEntry struct {
	scenarios.Requirement
	Scenarios []string `json:"scenarios"`
}

//go:generate sh -c "go run . catalog -o md >../../docs/catalogue.md"

func newCatalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog [ID]",
		Short: "List the requirements and the scenarios that settle them, or describe some",
		Long: `List the requirements of the catalogue and the scenarios that settle them. With an ID, in which
* and ? are wildcards, describe those requirements: what is broken, what is judged and by which
bound, why it matters, and where it comes from.`,
		Example: `  holdfast catalog
  holdfast catalog HA-LE-002
  holdfast catalog 'HA-EP-*' -o json`,
		Args:              arguments("[ID]"),
		ValidArgsFunction: completed(requirementIDs),
	}
	output := addOutputFlag[[]catalogEntry](cmd, "table", "json", "md")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var entries []catalogEntry
		for _, r := range scenarios.Requirements() {
			if len(args) > 0 {
				if match, err := path.Match(strings.ToUpper(args[0]), r.ID); err != nil {
					return usageError("%s: %w", args[0], err)
				} else if !match {
					continue
				}
			}
			e := catalogEntry{Requirement: r, Scenarios: []string{}}
			for _, s := range scenarios.SettledBy(r) {
				e.Scenarios = append(e.Scenarios, s.Metadata.Name)
			}
			entries = append(entries, e)
		}
		if len(entries) == 0 {
			return usageError("%s is not a requirement of the catalogue%s", args[0], nearest.Meant(requirementIDs(), args[0]))
		}
		return output.print(cmd, entries, func(out io.Writer) error {
			switch {
			case len(args) > 0:
				return printRequirements(out, entries)
			case output.format == "md":
				if _, err := io.WriteString(out, catalogIntro); err != nil {
					return err
				}
				return printRequirements(out, entries)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tLEVEL\tSETTLED BY\tREQUIREMENT")
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.ID, e.Level, settledBy(e), reports.Clip(e.Text, 80))
			}
			return w.Flush()
		})
	}
	return cmd
}

func settledBy(e catalogEntry) string {
	switch {
	case e.Invariant():
		return "every scenario"
	case len(e.Scenarios) == 0:
		return "-"
	}
	return strings.Join(e.Scenarios, ", ")
}
