package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
		Use:   "catalog",
		Short: "List the requirements and the scenarios that settle them",
		Example: `  holdfast catalog
  holdfast catalog -o md`,
		Args: arguments(),
	}
	output := addOutputFlag[[]catalogEntry](cmd, "table", "json", "md")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var entries []catalogEntry
		for _, r := range scenarios.Requirements() {
			e := catalogEntry{Requirement: r, Scenarios: []string{}}
			for _, s := range scenarios.SettledBy(r) {
				e.Scenarios = append(e.Scenarios, s.Metadata.Name)
			}
			entries = append(entries, e)
		}
		return output.print(cmd, entries, func(out io.Writer) error {
			if output.format == "md" {
				return printCatalogPage(out, entries)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tLEVEL\tSETTLED BY\tREQUIREMENT")
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.ID, e.Level, settledBy(e), shorten(e.Text, 80))
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

func shorten(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
