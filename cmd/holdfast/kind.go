package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
)

func newKindCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kind",
		Short: "Manage what clusters of the kind provider need: a Docker engine and images",
		Long: `Manage what clusters of the kind provider need. Commands that create clusters set up the
engine and the images automatically; these commands set them up in advance, show them and
remove them.`,
	}
	cmd.AddCommand(newKindEngineCommand(), newKindImageCommand(kindEngine), newKindPackagesCommand())
	return cmd
}

// kindEngine returns the address of the engine for kind clusters, and starts one if none exists.
func kindEngine(ctx context.Context) (string, error) {
	e, err := engine.Ensure(ctx, engine.Config{})
	return e.Host, err
}
