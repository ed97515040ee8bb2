package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the Makefile with -ldflags -X main.version=...
var version = ""

// holdfastVersion returns the version of this program, for people and for the
// records it writes: what the Makefile stamped, else what Go recorded, else
// "devel".
func holdfastVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// versionLine is the version for people.
func versionLine() string {
	return fmt.Sprintf("holdfast %s (%s, %s/%s)", holdfastVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of holdfast",
		Args:  cobra.NoArgs,
	}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := struct {
			Version  string `json:"version"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{holdfastVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), v)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		return err
	}
	return cmd
}
