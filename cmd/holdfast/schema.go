package main

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

//go:generate sh -c "go run . schema scenario >../../docs/scenario.schema.json"
//go:generate go test -count=1 -run ^TestSchemas$ . -update

// schemas has the JSON schema of each command's -o json output, in a file named after the
// command.
//
//go:embed schemas
var schemas embed.FS

func newSchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema scenario|results|plan|COMMAND...",
		Short: "Print the JSON schema of scenario files, of results.json, or of a command's output",
		Long: `Print the JSON schema that scenario files are validated against, that of
results.json, or that of a command's output with -o json. 'plan' is the schema of the
output of --dry-run; with --resume that output is a list of scenarios. Editors with a
YAML language server complete and check a scenario file that begins with the line

  # yaml-language-server: $schema=scenario.schema.json`,
		Example: `  holdfast schema scenario >scenario.schema.json
  holdfast schema results
  holdfast schema status
  holdfast schema kind engine status`,
		Args: arguments("NAME..."),
	}
	cmd.ValidArgsFunction = completed(schemaNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := schemaOf(strings.Join(args, " "))
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	}
	return cmd
}

func schemaNames() []string {
	names := []string{"results", "scenario"}
	files, _ := fs.ReadDir(schemas, "schemas") // embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}

func schemaOf(name string) ([]byte, error) {
	switch name {
	case "scenario":
		return scenarios.Schema()
	case "results", "run", "judge":
		return reports.Schema, nil
	}
	text, err := schemas.ReadFile("schemas/" + strings.ReplaceAll(name, " ", "-") + ".json")
	if err != nil {
		return nil, usageError("unknown schema %q%s: want one of %s", name, nearest.Meant(schemaNames(), name), strings.Join(schemaNames(), ", "))
	}
	return text, nil
}
