package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// faultEntry is a fault as `holdfast faults` shows it.
type faultEntry struct {
	Name string `json:"name"`
	fault.Doc
	Command string `json:"command"`
}

func describeFault(f fault.Fault) faultEntry {
	d := f.Doc()
	return faultEntry{Name: f.Name(), Doc: d, Command: injectCommand(f.Name(), d.Example)}
}

// injectCommand turns the example of a fault into a command line.
func injectCommand(name, example string) string {
	target, params, _ := strings.Cut(example, " ")
	return strings.TrimSpace(fmt.Sprintf("holdfast inject %s --on %s --for 30s %s", name, target, params))
}

func newFaultsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "faults [FAULT]",
		Short: "List the faults, or describe one: its parameters, what it needs, an example",
		Example: `  holdfast faults
  holdfast faults latency
  holdfast faults -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if len(args) == 1 {
			f, ok := fault.ByName(args[0])
			if !ok {
				return exitWith(exitUsage, fault.Unknown(args[0]))
			}
			if *output == outputJSON {
				return writeJSON(out, describeFault(f))
			}
			return printFault(out, describeFault(f))
		}
		var all []faultEntry
		for _, f := range fault.All() {
			all = append(all, describeFault(f))
		}
		if *output == outputJSON {
			return writeJSON(out, all)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FAULT\tON\tPARAMETERS\tWHAT IT DOES")
		for _, f := range all {
			params := strings.Join(slices.Sorted(maps.Keys(f.Params)), ", ")
			if params == "" {
				params = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, strings.Join(f.Targets, ", "), params, shorten(f.Summary, 90))
		}
		return w.Flush()
	}
	return cmd
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
