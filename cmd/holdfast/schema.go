package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

//go:generate sh -c "go run . schema scenario >../../docs/scenario.schema.json"

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema scenario|results",
		Short: "Print the JSON schema of scenario files, or of results.json",
		Long: `Print the JSON schema that scenario files are validated against, or that of the file
results.json. Editors with a YAML language server complete and
check a scenario file that begins with the line

  # yaml-language-server: $schema=scenario.schema.json`,
		Example: `  holdfast schema scenario >scenario.schema.json
  holdfast schema results`,
		ValidArgs: []string{"scenario", "results"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := reports.Schema, error(nil)
			if args[0] == "scenario" {
				text, err = scenarios.Schema()
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
}
