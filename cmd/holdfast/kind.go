package main

import "github.com/spf13/cobra"

func newKindCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kind",
		Short: "What clusters of the kind provider need: a Docker engine",
		Long: `What clusters of the kind provider need, for machines that do not have it. The
commands on clusters themselves see to it that it is there; these do it beforehand,
show it, and get rid of it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKindEngineCommand())
	return cmd
}
