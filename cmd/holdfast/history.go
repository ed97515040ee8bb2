package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/reports"
)

func newHistoryCommand() *cobra.Command {
	var html string
	cmd := &cobra.Command{
		Use:   "history DIR...",
		Short: "Show the verdicts and measured times of several runs side by side",
		Long: `Show what several runs, such as a nightly job's, found on each requirement: verdicts, and
measured times against their bounds. --html writes a page with a small chart for each
requirement; requirements whose verdict changed come first.`,
		Example: `  holdfast history results/*
  holdfast history results/* --html history.html
  holdfast history results/* -o json`,
		Args: arguments("DIR..."),
	}
	cmd.Flags().StringVar(&html, "html", "", "`file` for a page with charts, which opens offline")
	output := addOutputFlag[*reports.History](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		results := map[string]*reports.Results{}
		for _, dir := range args {
			r, err := reports.Load(dir)
			if err != nil {
				return exitWith(exitUsage, err)
			}
			results[dir] = r
		}
		h := reports.NewHistory(results)
		if html != "" {
			page, err := h.HTML()
			if err != nil {
				return err
			}
			if err := os.WriteFile(html, page, 0o644); err != nil {
				return exitWith(exitUsage, fmt.Errorf("failed to write the history: %w", err))
			}
		}
		return output.print(cmd, h, h.Print)
	}
	return cmd
}
