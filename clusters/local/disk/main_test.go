package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// insideEnv is set in the copy of the test binary that has namespaces of
	// its own. Its value says why not, where they could not be had.
	insideEnv = "DISK_TEST_SANDBOX"
	insideYes = "yes"

	roleDisk   = "disk-test-server"
	roleWriter = "disk-test-writer"
)

// TestMain runs the tests in new user, mount and PID namespaces, where anybody
// may mount and nothing stays behind.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case roleDisk:
		fmt.Fprintln(os.Stderr, Serve(os.Args[1:]))
		os.Exit(1)
	case roleWriter:
		os.Exit(runWriter(os.Args[1]))
	}
	if os.Getenv(insideEnv) == "" {
		os.Exit(reexecute())
	}
	if os.Getenv(insideEnv) == insideYes && os.Getpid() == 1 {
		if err := enterSandbox(); err != nil {
			fmt.Fprintln(os.Stderr, "disk test sandbox:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func reexecute() int {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if namespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func enterSandbox() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// needFUSE skips a test where no disk can be mounted.
func needFUSE(t testing.TB) {
	t.Helper()
	if inside := os.Getenv(insideEnv); inside != insideYes {
		t.Skip(inside)
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	f.Close()
}

// startDisk starts a disk over a directory of the test's.
func startDisk(t testing.TB, dir string) *Process {
	t.Helper()
	needFUSE(t)
	mount := filepath.Join(dir, "mount")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Start(roleDisk, ServeConfig{Config: Config{Mount: mount, Backing: filepath.Join(dir, "backing"), Seed: 1},
		Socket: filepath.Join(dir, "disk.sock")}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func eventually(t *testing.T, limit time.Duration, what string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !good(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// runWriter appends lines to a file and syncs each, until it is killed or fails.
func runWriter(path string) int {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	for i := 0; err == nil; i++ {
		if _, err = fmt.Fprintln(f, i); err == nil {
			if err = unix.Fdatasync(int(f.Fd())); err == nil {
				fmt.Println(i)
			}
		}
	}
	fmt.Println(err)
	return 1
}
