package system

import (
	"fmt"
	"os"
	"path/filepath"
)

// RunRole runs the role under whose name, argv[0], the program has re-executed itself, and does not return
// in one.
func RunRole(roles map[string]func(args []string) error) {
	name := filepath.Base(os.Args[0])
	run := roles[name]
	if run == nil {
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(3)
	}
	os.Exit(0)
}
