package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the Makefile with -ldflags -X main.version=...
var version = ""

// holdfastVersion returns the version of this program, for users and for the records it writes:
// the one stamped by the Makefile, else the one recorded by Go, else "devel".
func holdfastVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func versionLine() string {
	return fmt.Sprintf("holdfast %s (%s, %s/%s)", holdfastVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// programVersion is what version prints as JSON.
type programVersion struct {
	Version string `json:"version"`
	// Go is the version of the Go toolchain that built it.
	Go string `json:"go"`
	// Platform is operating system and architecture, such as linux/amd64.
	Platform string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of holdfast",
	}
	output := addOutputFlag[programVersion](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := programVersion{holdfastVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		return output.printf(cmd, v, "%s\n", versionLine())
	}
	return cmd
}
