package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/remote"
)

func newProfileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Show how a node of an existing cluster runs its components",
		Long: `Show how a node of an inventory runs its components: their processes, what starts them, and how
they are kept down. A distribution profile says where to look for them; docs/distributions.md
lists the profiles.`,
	}
	cmd.AddCommand(newProfileDetectCommand(), newProfileCheckCommand())
	return cmd
}

func newProfileDetectCommand() *cobra.Command {
	return newProfileOf(&cobra.Command{
		Use:   "detect NODE",
		Short: "Find the distribution profile that fits a node",
		Long: `Try the distribution profiles on a node over SSH, and print what the first one that fits finds,
and why those before it do not fit. It changes nothing.

Exit codes: 0 a profile fits, 1 none does, 2 bad input.`,
		Example: `  holdfast profile detect cp-1 --inventory nodes.yaml`,
	}, func(*clusters.Inventory) string { return "auto" })
}

func newProfileCheckCommand() *cobra.Command {
	var profile string
	cmd := newProfileOf(&cobra.Command{
		Use:   "check NODE",
		Short: "Check whether a node runs its components as its profile says",
		Long: `Compare a node, over SSH, with the distribution profile that its inventory names, or with
another one, and print what was found. A process, its parent, its manifest, its systemd unit, or
the port of the API server that is not as the profile says is an error. It changes nothing.

Exit codes: 0 the profile fits, 1 it does not, 2 bad input.`,
		Example: `  holdfast profile check cp-1 --inventory nodes.yaml
  holdfast profile check cp-1 --inventory nodes.yaml --profile ./mine.yaml`,
	}, func(i *clusters.Inventory) string {
		if profile != "" {
			return profile
		}
		return i.Spec.Distribution
	})
	cmd.Flags().StringVar(&profile, "profile", "", "`name` or path of a profile (default the inventory's)")
	return cmd
}

// newProfileOf completes a command that inspects a node with a profile.
func newProfileOf(cmd *cobra.Command, profile func(*clusters.Inventory) string) *cobra.Command {
	var inventory string
	cmd.Args = arguments("NODE")
	cmd.Flags().StringVar(&inventory, "inventory", "", "inventory `file` of the cluster (required)")
	output := addOutputFlag[remote.NodeProfile](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if inventory == "" {
			return usageError("--inventory is missing: want the inventory of the cluster")
		}
		i, err := clusters.LoadInventory(inventory)
		if err != nil {
			return err
		}
		seen, err := remote.Inspect(cmd.Context(), i, args[0], profile(i))
		if err != nil {
			return exitWith(exitUsage, err)
		}
		err = output.print(cmd, seen, func(w io.Writer) error { return printProfile(w, seen) })
		if err == nil && seen.Profile == "" {
			err = exitWith(exitFail, fmt.Errorf("no profile fits how the components on %s are run", seen.Node))
		}
		return err
	}
	return cmd
}

func printProfile(out io.Writer, seen remote.NodeProfile) error {
	for _, r := range seen.Refused {
		fmt.Fprintf(out, "profile %s does not fit: %s\n", r.Profile, r.Why)
	}
	if seen.Profile == "" {
		return nil
	}
	fmt.Fprintf(out, "profile %s fits\n\n", seen.Profile)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tPROCESS\tSTARTED BY\tKEPT DOWN")
	for _, c := range seen.Components {
		if c.PID == 0 {
			fmt.Fprintf(w, "%s\tnot found\t\t\n", c.Name)
			continue
		}
		from := c.Parent
		switch {
		case c.Manifest != "":
			from = c.Manifest
		case c.Unit != "":
			from = c.Unit
		}
		down := c.KeptDown
		if len(c.With) > 0 {
			down += ", with its whole process"
		}
		fmt.Fprintf(w, "%s\t%d %s\t%s\t%s\n", c.Name, c.PID, c.Command, from, down)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range []struct{ what, is string }{{"etcd's data", seen.EtcdData}, {"audit log", seen.Audit}} {
		if line.is != "" {
			fmt.Fprintf(out, "\n%s: %s", line.what, line.is)
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}
