package benchnetwork

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// insideEnv is set in the copy of the test binary that runs in its own namespaces. If these could
// not be created, its value is the reason.
const insideEnv = "HOLDFAST_BENCH_SANDBOX"

const insideYes = "yes"

// TestMain runs the benchmarks in their own user, mount, PID and network namespaces: no packet
// leaves them, and nothing is left behind.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(insideEnv) == "":
		os.Exit(reexecute())
	case os.Getenv(insideEnv) == insideYes:
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "entering the sandbox:", err)
			os.Exit(1)
		}
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log despite their settings
	// The switch needs a CPU when a packet arrives; see its package comment.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	os.Exit(m.Run())
}

func reexecute() int {
	// The parent-death signal follows the thread that forked.
	runtime.LockOSThread()
	err := copyOfThis(insideYes, true).Run()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		err = copyOfThis("user namespaces are not available: "+err.Error(), false).Run()
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "running the benchmarks in namespaces:", err)
		return 1
	}
	return 0
}

func copyOfThis(inside string, namespaces bool) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+inside)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if namespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return loopbackUp()
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

func needSandbox(b *testing.B) {
	b.Helper()
	if inside := os.Getenv(insideEnv); inside != insideYes {
		b.Skip(inside)
	}
}

// machine is a network namespace.
type machine struct{ ns *os.File }

// newMachine makes a network namespace.
func newMachine(b *testing.B) machine {
	b.Helper()
	var m machine
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		m.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		b.Fatalf("making a network namespace: %v", err)
	}
	b.Cleanup(func() { _ = m.ns.Close() })
	return m
}

// in calls do in the machine's namespace.
func (m machine) in(do func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(m.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

// onThread calls do on its own thread, which exits with it.
func onThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread exits
		result <- do()
	}()
	return <-result
}
