package engine

import "github.com/holdfast-ha/holdfast/clusters/system"

// Names under which the program re-executes itself, as argv[0].
const (
	roleInit  = "holdfast-engine"
	roleEnter = "holdfast-engine-enter"
)

// Main runs a re-executed copy of the program as the first process of an engine or as a program
// in its network, and does not return in it. In the program itself it returns. Call it first in
// main or TestMain, along with Main of the other providers.
func Main() {
	system.RunRole(map[string]func([]string) error{roleInit: runInit, roleEnter: runEnter})
}
