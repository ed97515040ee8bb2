package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// faultEntry is a fault as `holdfast faults` shows it.
type faultEntry struct {
	Name    string   `json:"name"`
	Summary string   `json:"summary"`
	Targets []string `json:"targets"`
	// Params describes each parameter by name.
	Params  map[string]string `json:"params,omitempty"`
	Needs   []string          `json:"needs"`
	Effects []record.Effect   `json:"effects"`
	Example string            `json:"example"`
	Command string            `json:"command"`
}

func describeFault(f *fault.Fault) faultEntry {
	e := faultEntry{Name: f.Name, Summary: f.Summary, Targets: f.Targets, Needs: f.Needs, Effects: f.EffectsWith(nil),
		Example: f.Example, Command: injectCommand(f.Name, f.Example), Params: map[string]string{}}
	for _, p := range f.Params {
		e.Params[p.Name] = p.String()
	}
	return e
}

// injectCommand turns the example of a fault into a command line.
func injectCommand(name, example string) string {
	target, params, _ := strings.Cut(example, " ")
	return strings.TrimSpace(fmt.Sprintf("holdfast inject %s --on %s --for 30s %s", name, target, params))
}

//go:generate sh -c "go run . faults -o md >../../docs/faults.md"

func newFaultsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "faults [FAULT]",
		Short: "List the faults, or describe one: its parameters, what it needs, an example",
		Example: `  holdfast faults
  holdfast faults latency
  holdfast faults -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completed(faultNames),
	}
	output := addOutputFlag[[]faultEntry](cmd, "table", "json", "md")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var all []faultEntry
		for _, f := range fault.All() {
			all = append(all, describeFault(f))
		}
		if len(args) == 1 {
			f, err := fault.Find(args[0])
			if err != nil {
				return exitWith(exitUsage, err)
			}
			all = []faultEntry{describeFault(f)}
		}
		return output.print(cmd, all, func(w io.Writer) error {
			switch {
			case output.format == "md":
				return printFaultsPage(w, all)
			case len(args) == 1:
				return printFault(w, all[0])
			}
			return printFaults(w, all)
		})
	}
	return cmd
}

func printFaults(out io.Writer, all []faultEntry) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tON\tPARAMETERS\tWHAT IT DOES")
	for _, f := range all {
		params := strings.Join(slices.Sorted(maps.Keys(f.Params)), ", ")
		params = cmp.Or(params, "-")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, strings.Join(f.Targets, ", "), params, shorten(f.Summary, 90))
	}
	return w.Flush()
}

func printFault(out io.Writer, f faultEntry) error {
	fmt.Fprintf(out, "%s: %s\n\n", f.Name, f.Summary)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "on\t%s\n", strings.Join(f.Targets, ", "))
	fmt.Fprintf(w, "needs\t%s\n", strings.Join(f.Needs, ", "))
	for _, name := range slices.Sorted(maps.Keys(f.Params)) {
		fmt.Fprintf(w, "%s=\t%s\n", name, f.Params[name])
	}
	fmt.Fprintf(w, "example\t%s\n", f.Command)
	return w.Flush()
}

// printFaultsPage writes the page docs/faults.md.
func printFaultsPage(out io.Writer, all []faultEntry) error {
	var b strings.Builder
	b.WriteString(`# Faults

What ` + "`holdfast inject`" + ` and the ` + "`inject`" + ` step of a scenario can break. This page is
made from the program: ` + "`holdfast faults -o md`" + `.

Each fault proves that it took effect and that it is healed, and has a time to live
after which it heals automatically, even if the harness was killed, and without the
API server's help. Durations are written as ` + "`20ms`" + `, shares as ` + "`10%`" + ` or ` + "`0.1`" + `,
sizes as ` + "`512Ki`" + `.
`)
	for _, f := range all {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", f.Name, strings.TrimSuffix(f.Summary, "."))
		fmt.Fprintf(&b, "- on: %s\n- needs: %s\n", strings.Join(f.Targets, ", "), strings.Join(f.Needs, ", "))
		for _, name := range slices.Sorted(maps.Keys(f.Params)) {
			fmt.Fprintf(&b, "- `%s=`: %s\n", name, f.Params[name])
		}
		fmt.Fprintf(&b, "\n```\n%s\n```\n", f.Command)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
