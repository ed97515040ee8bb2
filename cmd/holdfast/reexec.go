package main

import (
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/clusters/local"
)

// reexec turns copies of this program that a provider has started (a sandbox's
// first process, a node agent, an etcd, what keeps a Docker engine or a cluster) into
// what they are meant to be, and does not return in them. It must come before anything
// else in main.
func reexec() {
	kind.Main()
	local.Main()
	keeper.Main(providers...)
}
