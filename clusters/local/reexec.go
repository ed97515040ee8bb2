package local

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/holdfast-ha/holdfast/clusters/local/addons"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
	"github.com/holdfast-ha/holdfast/clusters/local/retry"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
)

// Names under which the program re-executes itself, as argv[0].
const (
	roleInit     = "holdfast-init"
	roleAgent    = "holdfast-agent"
	roleEtcd     = "holdfast-etcd"
	roleBalancer = "holdfast-balancer"
	roleLoad     = "holdfast-load"
	roleDisk     = "holdfast-disk"
	roleTamper   = "holdfast-tamper"
	roleRetry    = "holdfast-retry"

	rolePodmaster = "holdfast-podmaster"
	roleVIP       = "holdfast-vip"
	roleAddons    = "holdfast-addons"
)

// Main runs re-executed copies of the program in their roles and does not return in them. In
// the program itself, and in its copy that is the first process of a sandbox, it returns. Call
// it first in main or TestMain.
func Main() {
	role := filepath.Base(os.Args[0])
	switch role {
	case roleInit:
		exitOn(role, runInit())
	case roleAgent:
		exitOn(role, runAgent(os.Args[1:]))
	case roleEtcd:
		etcdmain.Main(append([]string{"etcd"}, os.Args[1:]...))
		os.Exit(0)
	case roleBalancer:
		os.Exit(balancer.Main(os.Args[1:]))
	case roleLoad:
		exitOn(role, runLoad(os.Args[1:]))
	case roleDisk:
		exitOn(role, disk.Serve(os.Args[1:]))
	case roleTamper:
		exitOn(role, tamper.Main(os.Args[1:]))
	case roleRetry:
		exitOn(role, retry.Main(os.Args[1:]))
	case rolePodmaster:
		exitOn(role, podmaster.Main(os.Args[1:]))
	case roleVIP:
		exitOn(role, vip.Main(os.Args[1:]))
	case roleAddons:
		exitOn(role, addons.Main(os.Args[1:]))
	}
	sandbox.Main()
}

func exitOn(role string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// InSandbox reports whether this process is the first one of a sandbox.
func InSandbox() bool { return sandbox.Inside() }

// Reexec runs this very process again in a sandbox, and returns its exit code. It is for
// TestMain:
//
//	local.Main()
//	if !local.InSandbox() {
//		os.Exit(local.Reexec())
//	}
func Reexec() int {
	defer sweepLimits()
	return sandbox.Reexec()
}
