package engine

import (
	"fmt"
	"os"
	"path/filepath"
)

// Names under which the program re-executes itself, as argv[0].
const (
	roleInit  = "holdfast-engine"
	roleEnter = "holdfast-engine-enter"
)

// Main runs a re-executed copy of the program as the first process of an engine or as a program
// in its network, and does not return in it. In the program itself it returns. Call it first in
// main or TestMain, along with Main of the other providers.
func Main() {
	var run func([]string) error
	role := filepath.Base(os.Args[0])
	switch role {
	case roleInit:
		run = runInit
	case roleEnter:
		run = runEnter
	default:
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(3)
	}
	os.Exit(0)
}
