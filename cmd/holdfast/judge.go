package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func judged(dir string) (*run.Verdicts, error) {
	v, err := run.Judge(dir)
	if errors.Is(err, run.ErrNoResults) {
		return nil, exitWith(exitUsage, err)
	}
	if err == nil && len(v.Plan.Rows) > 0 {
		certify.Judge(v) // for its reports
	}
	return v, err
}

// reportOn says where the report on verdicts is, or how to create one.
func reportOn(v *run.Verdicts, dir string) string {
	stored, err := reports.Load(dir)
	if _, missing := os.Stat(filepath.Join(dir, reports.HTMLFile)); err != nil || missing != nil {
		return "It has no report; render one with: holdfast report " + dir
	}
	now := reports.New(v.Report(), v.Results, nil)
	if !slices.EqualFunc(stored.Results, now.Results, func(a, b judge.Result) bool {
		return a.Requirement == b.Requirement && a.Scenario == b.Scenario && a.Judge == b.Judge && a.Verdict == b.Verdict && a.Sentence == b.Sentence
	}) {
		return "The report in " + dir + " has different verdicts; render it again with: holdfast report " + dir
	}
	return reportIn(dir)
}

func reportIn(dir string) string {
	path := filepath.Join(dir, reports.HTMLFile)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "Report: " + path
}

// announce prints the verdicts and notes on them, and returns their exit code.
func announce(cmd *cobra.Command, v *run.Verdicts, output *outputFlag[*reports.Results], notes ...string) error {
	results := reports.New(v.Redacted().Report(), v.Results, scenarios.Titles())
	err := output.print(cmd, results, func(w io.Writer) error {
		if results.Run.Certificate != nil {
			notes = append([]string{reports.OneLine(results.Headline())}, notes...)
		}
		return reports.Print(w, strings.Join(notes, "\n"), results.All(), isTerminal(w))
	})
	if err != nil {
		return err
	}
	return exitWith(results.ExitCode, nil)
}

func empty(s string) bool { return s == "" }

// only keeps the verdicts on the requirements with these IDs; all if there are none.
func only(v *run.Verdicts, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	settled := framework.Names(v.Results, func(r judge.Result) string { return r.Requirement })
	known := requirementIDs()
	for _, id := range ids {
		switch {
		case slices.Contains(settled, id):
		case slices.Contains(known, id):
			return usageError("this run does not settle %s; of those that it settles, %s are the most similar", id, strings.Join(nearest.Names(settled, id, 3), ", "))
		default:
			return usageError("requirement %s does not exist; similar ones are %s", id, strings.Join(nearest.Names(append(known, settled...), id, 3), ", "))
		}
	}
	v.Certificate = nil // which is not about these alone
	v.Results = slices.DeleteFunc(v.Results, func(r judge.Result) bool { return !slices.Contains(ids, r.Requirement) })
	return nil
}

func newJudgeCommand() *cobra.Command {
	var ids []string
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Derive the verdicts again from the record of a run",
		Long: `Derive the verdicts again from the record in a results directory. Nothing is
started and nothing is written; the same record gives the same verdicts.

Exit codes: 0 no requirement failed or is inconclusive, 1 a requirement failed, 2 bad input,
3 inconclusive, or the run had a problem.`,
		Example: `  holdfast judge results/20261121-080000
  holdfast judge results/20261121-080000 --requirement HA-EP-003 -o json`,
		Args: arguments("DIR"),
	}
	cmd.Flags().StringSliceVar(&ids, "requirement", nil, "only these requirements, by ID")
	output := addOutputFlag[*reports.Results](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := judged(args[0])
		if err != nil {
			return err
		}
		notes := []string{reportOn(v, args[0])}
		if len(ids) == 0 {
			notes = slices.DeleteFunc(append([]string{v.NotJudged()}, notes...), empty)
		}
		if problem := v.Redacted().Report().Problem; problem != "" {
			notes = append([]string{"The run had a problem: " + reports.OneLine(problem)}, notes...)
		}
		if err := only(v, ids); err != nil {
			return err
		}
		return announce(cmd, v, output, notes...)
	}
	return cmd
}

// rendered is what report prints as JSON.
type rendered struct {
	// Report is the path of report.html.
	Report string `json:"report"`
}

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Render the report of a run again from its record",
		Long: `Derive the verdicts again from the record in a results directory, and write all reports on
them: report.html, results.json, junit.xml, summary.md, metrics.prom and
sonobuoy_results.yaml. It prints the path of report.html. Exit code 0 means that they are
written, whatever the verdicts.`,
		Example: `  holdfast report results/20261121-080000
  holdfast report /mnt/archive/results --out report`,
		Args: arguments("DIR"),
	}
	cmd.Flags().StringVar(&out, "out", "", "directory to write the report to (default DIR itself)")
	output := addOutputFlag[rendered](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := judged(args[0])
		if err != nil {
			return err
		}
		to := cmp.Or(out, args[0])
		if err := v.Write(to); err != nil {
			return err
		}
		file := filepath.Join(to, reports.HTMLFile)
		return output.printf(cmd, rendered{file}, "%s\n", file)
	}
	return cmd
}

func newDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changed between two runs",
		Long: `Show what changed between two runs, the worst changes first.

Exit codes: 0 no requirement is worse, 1 a requirement fails that did not fail before,
2 bad input, 3 a requirement lost its verdict: it passed before, and is now inconclusive,
not applicable or no longer judged. Measured times do not affect the exit code.`,
		Example: `  holdfast diff results/last-night results/tonight
  holdfast diff results/last-night results/tonight -o json
  holdfast diff results/last-night results/tonight --markdown >> $GITHUB_STEP_SUMMARY`,
		Args: arguments("OLD", "NEW"),
	}
	asMarkdown := cmd.Flags().Bool("markdown", false, "print a table in Markdown")
	output := addOutputFlag[[]reports.Change](cmd)
	cmd.MarkFlagsMutuallyExclusive("markdown", "output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var both [2]*reports.Results
		for i, dir := range args {
			var err error
			if both[i], err = reports.Load(dir); err != nil {
				return exitWith(exitUsage, err)
			}
		}
		changes := reports.Diff(both[0], both[1])
		err := output.print(cmd, changes, func(w io.Writer) error {
			if *asMarkdown {
				return reports.PrintDiffMarkdown(w, changes)
			}
			return reports.PrintDiff(w, changes)
		})
		if err != nil {
			return err
		}
		return exitWith(reports.DiffExitCode(changes), nil)
	}
	return cmd
}
