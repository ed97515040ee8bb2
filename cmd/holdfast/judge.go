package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// judged judges the records of a results directory.
func judged(dir string) (*run.Verdicts, error) {
	v, err := run.Judge(dir)
	if errors.Is(err, run.ErrNoResults) {
		return nil, exitWith(exitUsage, err)
	}
	return v, err
}

// announce prints the verdicts and ends the command with their exit code.
func announce(cmd *cobra.Command, v *run.Verdicts, dir string, output outputFormat) error {
	results := reports.New(v.Report(), v.Results, scenarios.Titles())
	var err error
	if output == outputJSON {
		err = writeJSON(cmd.OutOrStdout(), results)
	} else {
		err = reports.Print(cmd.OutOrStdout(), dir, results.All(), isTerminal(cmd.OutOrStdout()))
	}
	if err != nil {
		return err
	}
	if code := reports.ExitCode(v.Results); code != exitPass {
		return exitWith(code, nil)
	}
	return nil
}

// only leaves of the verdicts those on the requirements of these IDs; without any, all.
func only(v *run.Verdicts, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	var settled, known []string
	for _, r := range v.Results {
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
	v.Results = slices.DeleteFunc(v.Results, func(r judge.Result) bool { return !slices.Contains(ids, r.Requirement) })
	return nil
}

func newJudgeCommand() *cobra.Command {
	var ids []string
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Derive the verdicts again from the record of a run",
		Long: `Derive the verdicts again from the record in a results directory. Nothing is
started and nothing is written; the same record gives the same verdicts.`,
		Example: `  holdfast judge results/20261121-080000
  holdfast judge results/20261121-080000 --requirement HA-EP-003 -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringSliceVar(&ids, "requirement", nil, "only these requirements, by ID")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := judged(args[0])
		if err != nil {
			return err
		}
		if err := only(v, ids); err != nil {
			return err
		}
		return announce(cmd, v, args[0], *output)
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
			v, err := judged(args[0])
			if err != nil {
				return err
			}
			if err := v.Write(args[0]); err != nil {
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
