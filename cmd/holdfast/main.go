// Command holdfast injects faults into a highly available Kubernetes control plane and reports,
// with evidence, whether it keeps its promises.
//
// The command line is thin: each command is one file with one constructor, listed in commands.go,
// and calls the packages that do the work. What the commands share (exit codes, output formats,
// progress) is in root.go.
//
// Tests of the command line are text scripts in testdata/script; run them with
//
//	go test ./cmd/holdfast
package main

import (
	"os"
)

func main() {
	reexec()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
