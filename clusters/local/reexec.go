package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/holdfast-ha/holdfast/clusters/local/addons"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
	"github.com/holdfast-ha/holdfast/clusters/local/retry"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// sandboxEnv marks the environment of a process that is to become the first
// one of a sandbox. Its value is the number of the lifeline's descriptor.
const sandboxEnv = "HOLDFAST_SANDBOX_LIFELINE"

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

// sandbox is the sandbox that this process is the first process of, nil
// outside one. It is set once, by Main.
var sandbox *sandboxInfo

// Main turns re-executed copies of the program into what they are to be and
// does not return in them. In the program itself, and in its copy that is the
// first process of a sandbox, it returns. Call it first thing in main or
// TestMain.
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
	if lifeline := os.Getenv(sandboxEnv); lifeline != "" && os.Getpid() == 1 {
		_ = os.Unsetenv(sandboxEnv)
		info, err := enterSandbox(lifeline)
		if err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: could not set up the sandbox: %v\n", err)
			os.Exit(3)
		}
		sandbox = info
	}
}

func exitOn(role string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// InSandbox reports whether this process is the first one of a sandbox.
func InSandbox() bool { return sandbox != nil }

// SandboxOptions are options of Command.
type SandboxOptions struct {
	// Arg0 replaces argv[0]; empty keeps the program's own name.
	Arg0 string
}

// Command returns a command that runs this program again, with args, as the
// first process of a new sandbox. The sandbox ends when the command ends or
// when this process ends, even by SIGKILL. The command is in a process group
// of its own, so that Ctrl-C reaches only this process; cancelling ctx sends
// it SIGINT. The caller sets its streams and starts it; descriptors of the
// caller go behind those already in ExtraFiles.
//
// Where the machine forbids user namespaces, starting the command fails;
// ExplainStart says what to do about it.
func Command(ctx context.Context, o SandboxOptions, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's own file: %w", err)
	}
	var lifeline [2]int
	if err := syscall.Pipe2(lifeline[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making the sandbox's lifeline: %w", err)
	}
	// The write end is held as a bare number and never closed: it closes with
	// this process, and that is what ends the sandbox.
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Args[0] = os.Args[0]
	if o.Arg0 != "" {
		cmd.Args[0] = o.Arg0
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(lifeline[0]), "lifeline")}
	cmd.Env = append(os.Environ(), sandboxEnv+"=3")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	uid, gid, err := idMaps()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		UidMappings:                uid,
		GidMappings:                gid,
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		Setpgid:                    true,
	}
	return cmd, nil
}

// Reexec runs this very process again, with the same arguments and streams, in
// a sandbox, and returns its exit code. It is for TestMain:
//
//	local.Main()
//	if !local.InSandbox() {
//		os.Exit(local.Reexec())
//	}
func Reexec() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd, err := Command(ctx, SandboxOptions{}, os.Args[1:]...)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = ExplainStart(cmd.Run())
		sweepLimits()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "holdfast: running in a sandbox: %v\n", err)
	return 3
}

// ExplainStart adds to an error of starting a sandbox what to do about it.
func ExplainStart(err error) error { return system.ExplainNamespaces(err) }

// idMaps returns the user and group mappings of a sandbox: every identity that
// root may use, or for an ordinary user only its own, as root.
func idMaps() (uid, gid []syscall.SysProcIDMap, err error) {
	if os.Geteuid() != 0 {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			[]syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}, nil
	}
	if uid, err = system.ReadIDMap("/proc/self/uid_map"); err != nil {
		return nil, nil, err
	}
	gid, err = system.ReadIDMap("/proc/self/gid_map")
	return uid, gid, err
}
