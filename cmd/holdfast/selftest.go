package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/suites/selftest"
)

// tableFormat is the value of the flag -o of commands with a table for people.
type tableFormat string

func (f *tableFormat) String() string { return string(*f) }
func (f *tableFormat) Type() string   { return "text|json|md" }

func (f *tableFormat) Set(s string) error {
	switch s {
	case "text", "json", "md":
		*f = tableFormat(s)
		return nil
	}
	return fmt.Errorf("must be text, json or md")
}

func newSelftestCommand() *cobra.Command {
	var (
		judges   []string
		ids      []string
		list     bool
		parallel int
		out      string
	)
	format := tableFormat("text")
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Show that each check finds what it looks for, and accuses no healthy cluster",
		Long: `Plant a violation of each guarantee into a real cluster and show that its judge
finds it, that of each requirement exactly what was planted fails, and that the
healthy twin passes: the same scenario with nothing planted. A check that has
never failed is not a check.

Exit codes: 0 each violation was caught and no healthy twin accused, 1 one was
missed, a healthy twin was accused or a guarantee has no planted violation, 2 bad
input, 3 inconclusive (as on an overloaded machine) or holdfast could not do it.`,
		Example: `  holdfast selftest
  holdfast selftest --judge linearizable,takeover --out results/selftest
  holdfast selftest --requirement 'HA-EP-*'
  holdfast selftest --list`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&judges, "judge", nil, "only these judges; * and ? are wild (default all)")
	flags.StringSliceVar(&ids, "requirement", nil, "only these requirements; * and ? are wild (default all)")
	flags.BoolVar(&list, "list", false, "list what would be planted, and do nothing")
	flags.IntVar(&parallel, "parallel", runtime.NumCPU(), "how many clusters at a time, each of about 1.6 GiB; what the machine was too busy for is run again alone")
	flags.StringVar(&out, "out", "", "directory for records and logs; it must be new or empty (default none is kept)")
	flags.VarP(&format, "output", "o", "output format")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if parallel < 1 {
			return usageError("--parallel %d: at least 1", parallel)
		}
		subjects := slices.Concat(judges, ids)
		work, err := selftest.Plan(subjects, parallel)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		var outcomes []selftest.Outcome
		var early error // why it ended before all was run
		if !list {
			if outcomes, early = plantAll(cmd, work, parallel, out); len(outcomes) == 0 && early != nil {
				return early
			}
		}
		rows, err := selftest.Rows(subjects, outcomes)
		if err != nil {
			return err
		}
		if err := printRows(cmd, rows, format, list); err != nil {
			return err
		}
		if list || early != nil {
			return early
		}
		return selftestExit(rows)
	}
	return cmd
}

// plantAll runs the work in sandboxes, so many at a time. With an error it returns what
// came of the runs before.
func plantAll(cmd *cobra.Command, work []selftest.Batch, parallel int, out string) ([]selftest.Outcome, error) {
	if out != "" {
		if err := checkResultsDir(out); err != nil {
			return nil, err
		}
	}
	shown := newProgress(cmd.ErrOrStderr())
	for _, spec := range selftest.Clusters(work) {
		if err := ensureBinaries(cmd, spec, shown); err != nil {
			return nil, err
		}
	}
	if out == "" {
		dir, err := os.MkdirTemp("", "holdfast-selftest-")
		if err != nil {
			return nil, fmt.Errorf("making a directory for records: %w; name one with --out", err)
		}
		defer os.RemoveAll(dir)
		out = dir
	}
	p := &planting{out: out, shown: shown}
	defer shown.Done()
	for i := range work {
		work[i].Once = parallel > 1
	}
	ctx := cmd.Context()
	p.carryOut(ctx, work, parallel)
	if again := selftest.Again(p.outcomes); parallel > 1 && len(again) > 0 && ctx.Err() == nil {
		shown.Line("what stayed unclear is run again, one at a time")
		p.outcomes = slices.DeleteFunc(p.outcomes, func(o selftest.Outcome) bool { return o.Unclear })
		p.carryOut(ctx, again, 1)
	}
	if ctx.Err() != nil {
		return p.outcomes, fmt.Errorf("ended early, with %d runs settled: %w", len(p.outcomes), context.Cause(ctx))
	}
	return p.outcomes, nil
}

// planting is what came of the batches so far.
type planting struct {
	out     string // gets a directory for each batch
	shown   *progress
	batches int

	mu       sync.Mutex
	outcomes []selftest.Outcome
}

// carryOut runs batches, so many at a time, until ctx ends.
func (p *planting) carryOut(ctx context.Context, work []selftest.Batch, parallel int) {
	total := 0
	for _, b := range work {
		total += len(b.Units)
	}
	p.shown.Line("%d runs on %d clusters, %d at a time", total, len(work), parallel)
	var all sync.WaitGroup
	done := 0 // of total; guarded by p.mu
	free := make(chan struct{}, parallel)
	for _, b := range work {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		p.batches++
		dir := filepath.Join(p.out, fmt.Sprintf("%d-%s", p.batches, b.Cluster))
		all.Go(func() {
			defer func() { <-free }()
			settled := 0
			add := func(o selftest.Outcome) {
				p.mu.Lock()
				defer p.mu.Unlock()
				settled++
				done++
				p.outcomes = append(p.outcomes, o)
				p.shown.Line("%5s  [%d/%d] %s: %s", p.shown.Elapsed(), done, total, o.Unit, o)
			}
			err := plantIn(ctx, dir, b, p.shown, add)
			if err == nil || ctx.Err() != nil {
				return
			}
			// The other clusters go on; what this one was to show stays open.
			for _, u := range b.Units[settled:] {
				add(selftest.Outcome{Unit: u, Problem: err.Error(), Unclear: true})
			}
		})
	}
	all.Wait()
}

// printRows prints the table.
func printRows(cmd *cobra.Command, rows []selftest.Row, format tableFormat, list bool) error {
	w := cmd.OutOrStdout()
	if format == "json" {
		return writeJSON(w, rows)
	}
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
		line := []string{r.Subject(), violation, string(r.State), string(r.Healthy), r.Took.Round(100 * time.Millisecond).String()}
		table = append(table, line[:len(header)])
	}
	if format == "md" {
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
			fmt.Fprintf(w, "\n%s: %s: %s\n", r.Subject(), r.State, r.Why)
		}
	}
	return nil
}

// selftestExit turns the table into the command's exit code.
func selftestExit(rows []selftest.Row) error {
	code := exitPass
	for _, r := range rows {
		switch {
		case r.State == selftest.Caught || r.State == selftest.Unplantable:
		case r.State != selftest.Unclear:
			code = exitFail
		case code == exitPass:
			code = exitInconclusive
		}
	}
	if code == exitPass {
		return nil
	}
	return exitWith(code, nil)
}
