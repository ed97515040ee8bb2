package local

import (
	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/holdfast-ha/holdfast/clusters/local/addons"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
	"github.com/holdfast-ha/holdfast/clusters/local/retry"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/clusters/system"
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
	system.RunRole(map[string]func([]string) error{
		roleInit:  func([]string) error { return runInit() },
		roleAgent: runAgent,
		roleEtcd: func(args []string) error {
			etcdmain.Main(append([]string{"etcd"}, args...))
			return nil
		},
		roleBalancer:  balancer.Main,
		roleLoad:      runLoad,
		roleDisk:      disk.Serve,
		roleTamper:    tamper.Main,
		roleRetry:     retry.Main,
		rolePodmaster: podmaster.Main,
		roleVIP:       vip.Main,
		roleAddons:    addons.Main,
	})
	sandbox.Main()
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
