package vnet

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// insideEnv is set in the copy of the test binary that runs in its own
// namespaces. Its value says why not, where they could not be had.
const insideEnv = "VNET_TEST_SANDBOX"

const insideYes = "yes"

// TestMain runs the tests in new user, mount, PID and network namespaces, so
// that they need no privileges and leave nothing behind.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) == "" {
		os.Exit(reexecute())
	}
	if os.Getenv(insideEnv) == insideYes && os.Getpid() == 1 {
		if err := enterSandbox(); err != nil {
			fmt.Fprintln(os.Stderr, "vnet test sandbox:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func reexecute() int {
	// The parent-death signal follows the thread that forked.
	runtime.LockOSThread()
	err := sandboxCommand(insideYes, true).Run()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		err = sandboxCommand("user namespaces are not available: "+err.Error(), false).Run()
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in namespaces:", err)
		return 1
	}
	return 0
}

func sandboxCommand(inside string, namespaces bool) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"="+inside)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if namespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
		cmd.SysProcAttr.UidMappings = idMappings("/proc/self/uid_map", os.Geteuid())
		cmd.SysProcAttr.GidMappings = idMappings("/proc/self/gid_map", os.Getegid())
		cmd.SysProcAttr.GidMappingsEnableSetgroups = os.Geteuid() == 0
	}
	return cmd
}

// idMappings maps all of root's IDs to themselves, and an ordinary user to root.
func idMappings(path string, id int) []syscall.SysProcIDMap {
	alone := []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	if os.Geteuid() != 0 {
		return alone
	}
	f, err := os.Open(path)
	if err != nil {
		return alone
	}
	defer f.Close()
	var all []syscall.SysProcIDMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		first, err1 := strconv.Atoi(fields[0])
		size, err2 := strconv.Atoi(fields[2])
		if err1 != nil || err2 != nil {
			return alone
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
	}
	return all
}

func enterSandbox() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// needSandbox skips a test that needs namespaces where they cannot be made.
func needSandbox(t testing.TB) {
	t.Helper()
	if inside := os.Getenv(insideEnv); inside != insideYes {
		t.Skip(inside)
	}
}
