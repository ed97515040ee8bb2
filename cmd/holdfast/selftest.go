package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/suites/selftest"
)

func newSelftestCommand() *cobra.Command {
	var (
		judges   []string
		ids      []string
		list     bool
		parallel int
		out      string
		resume   string
	)
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Prove that each check finds its violation and passes a healthy cluster",
		Long: `Plant a violation of each guarantee in a real cluster and show that its judge
finds it, that only the requirements with a planted violation fail, and that the healthy twin passes:
the same scenario with nothing planted. A check that has
never failed is not a check.

Several clusters run side by side. A run that is inconclusive, or that does not catch
its violation, is repeated alone: on a busy machine neither proves anything. If most runs have
to be repeated, the rest run on one cluster. In full it takes about two hours on two cores, and
five with one cluster at a time; --resume continues an earlier selftest.

Exit codes: 0 each violation was caught and no healthy twin failed, 1 a violation was
missed, a healthy twin failed or a guarantee has no planted violation, 2 bad
input, 3 inconclusive (as on an overloaded machine) or holdfast itself failed.`,
		Example: `  holdfast selftest
  holdfast selftest --judge linearizable,takeover --out results/selftest
  holdfast selftest --requirement 'HA-EP-*'
  holdfast selftest --resume results/selftest
  holdfast selftest --list`,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&judges, "judge", nil, "only these judges; * and ? are wildcards (default all)")
	flags.StringSliceVar(&ids, "requirement", nil, "only these requirements; * and ? are wildcards (default all)")
	flags.BoolVar(&list, "list", false, "list what would be planted, and do nothing")
	flags.IntVar(&parallel, "parallel", runtime.NumCPU(), "number of clusters at a time, one per CPU if not given; each needs about 1.6 GiB")
	flags.StringVar(&out, "out", "", "directory for records and logs; it must be new or empty (default: they are not kept)")
	flags.StringVar(&resume, "resume", "", "directory of an earlier selftest, of the same version of holdfast: what it settled is not run again")
	output := addOutputFlag[[]selftest.Row](cmd, "table", "json", "md")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if parallel < 1 {
			return usageError("--parallel %d: want at least 1", parallel)
		}
		subjects := slices.Concat(judges, ids)
		if out != "" && resume != "" {
			return usageError("--out and --resume: a selftest that is resumed stays in its directory: leave out --out")
		}
		work, err := selftest.Plan(subjects)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		var outcomes []selftest.Outcome
		var early error // why the selftest stopped before all was run
		if !list {
			if outcomes, early = plantAll(cmd, work, parallel, out, resume); len(outcomes) == 0 && early != nil {
				return early
			}
		}
		rows, err := selftest.Rows(subjects, outcomes)
		if err != nil {
			return err
		}
		if err := output.print(cmd, rows, func(w io.Writer) error { return printRows(w, rows, output.format == "md", list) }); err != nil {
			return err
		}
		if list {
			return nil
		}
		return selftestExit(rows, early)
	}
	return cmd
}

func printRows(w io.Writer, rows []selftest.Row, markdown, list bool) error {
	header := []string{"GUARANTEE", "PLANTED VIOLATION", "CAUGHT", "HEALTHY TWIN", "TIME"}
	if list {
		header = header[:2]
	}
	var table [][]string
	for _, r := range rows {
		violation := r.Violation
		if r.State == selftest.NoPlant {
			violation = "-"
		}
		line := []string{r.String(), violation, string(r.State), string(r.Healthy), r.Took.Round(100 * time.Millisecond).String()}
		table = append(table, line[:len(header)])
	}
	if markdown {
		fmt.Fprintf(w, "| %s |\n|%s\n", strings.ToLower(strings.Join(header, " | ")), strings.Repeat("---|", len(header)))
		for _, line := range table {
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		}
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, line := range append([][]string{header}, table...) {
			fmt.Fprintln(t, strings.Join(line, "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		if r.Why != "" && !list {
			fmt.Fprintf(w, "\n%s: %s: %s\n", r, r.State, r.Why)
		}
	}
	return nil
}

// selftestExit returns what the program exits with for the table of a selftest that early, unless
// nil, stopped: a missed violation is a failure even so.
func selftestExit(rows []selftest.Row, early error) error {
	code := exitPass
	for _, r := range rows {
		switch {
		case r.State == selftest.Caught:
		case r.State != selftest.Unclear:
			code = exitFail
		case code == exitPass:
			code = exitInconclusive
		}
	}
	if early != nil && code != exitFail {
		return early
	}
	return exitWith(code, early)
}
