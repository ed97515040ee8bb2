package main

import (
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdctl/v3/ctlv3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/suites/run"
	"github.com/holdfast-ha/holdfast/suites/selftest"
)

// reexec turns copies of this program that a provider has started (a sandbox's
// first process, a node agent, an etcd, what keeps a Docker engine or a cluster) into
// what they are meant to be, and does not return in them. It must come before anything
// else in main.
func reexec() {
	if filepath.Base(os.Args[0]) == "etcdctl" { // as it is called in 'holdfast shell'
		ctlv3.MustStart()
		os.Exit(0)
	}
	clusters.Main(providers...)
	keeper.Main(providers...)
	run.Program{Providers: providers}.Main()
	selftest.Main(holdfastVersion())
}
