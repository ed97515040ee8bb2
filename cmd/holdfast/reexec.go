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

// reexec runs the role of a copy of this program that a provider started (a sandbox's first
// process, a node agent, an etcd, the keeper of a Docker engine or a cluster), and does not
// return in such a copy. It must be called first in main.
func reexec() {
	if filepath.Base(os.Args[0]) == "etcdctl" { // 'holdfast shell' calls it so
		ctlv3.MustStart()
		os.Exit(0)
	}
	clusters.Main(providers...)
	keeper.Main(providers...)
	run.Program{Providers: providers}.Main()
	selftest.Main(holdfastVersion())
}
