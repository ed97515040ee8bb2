// Package sandbox runs the program again in namespaces of its own: user, mount, PID, network,
// UTS and IPC. It needs no privileges, no interface leads out of it, and when the program exits
// the kernel kills all processes in it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// lifelineEnv marks the environment of a process that is to become the first
// one of a sandbox. Its value is the number of the lifeline's descriptor.
const lifelineEnv = "HOLDFAST_SANDBOX_LIFELINE"

// dir is a tmpfs that only the sandbox of this process sees, empty outside of one. Main sets it
// once.
var dir string

// Main sets this process up as the first one of a sandbox if Command started it as that, and
// exits if that fails. Call it first in main or TestMain.
func Main() {
	lifeline := os.Getenv(lifelineEnv)
	if lifeline == "" || os.Getpid() != 1 {
		return
	}
	_ = os.Unsetenv(lifelineEnv)
	var err error
	if dir, err = enter(lifeline); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: could not set up the sandbox: %v\n", err)
		os.Exit(3)
	}
}

// Inside reports whether this process is the first one of a sandbox.
func Inside() bool { return dir != "" }

// Dir returns the directory that only this sandbox sees, a tmpfs that disappears with it; empty
// outside of one.
func Dir() string { return dir }

// Command returns a command that runs this program again, with args, as the first process of a
// new sandbox. The sandbox ends when the command exits or when this process does, even by
// SIGKILL. The command is in a process group of its own, so that Ctrl-C reaches only this
// process; cancelling ctx sends it SIGINT. The caller sets its streams and starts it;
// descriptors of the caller follow those already in ExtraFiles.
//
// If the machine forbids user namespaces, starting the command fails; system.ExplainNamespaces
// says what to do about it.
func Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	var lifeline [2]int
	if err := syscall.Pipe2(lifeline[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("failed to make the sandbox's lifeline: %w", err)
	}
	// The write end is held as a bare number and never closed: it closes with this process,
	// which ends the sandbox.
	cmd := system.Again(ctx, args...)
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(lifeline[0]), "lifeline")}
	cmd.Env = append(Environ(), lifelineEnv+"=3")
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

// Environ returns this process's environment for programs in a sandbox: without proxies, which no
// sandbox can reach, and without settings of an etcd, which are not for the members of a cluster.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "ETCD_") ||
			slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}, strings.ToUpper(name))
	})
}

// Reexec runs this very process again, with the same arguments and streams, in
// a sandbox, and returns its exit code. It is for TestMain:
//
//	sandbox.Main()
//	if !sandbox.Inside() {
//		os.Exit(sandbox.Reexec())
//	}
func Reexec() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd, err := Command(ctx, os.Args[1:]...)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = system.ExplainNamespaces(cmd.Run())
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

// idMaps returns the user and group mappings of a sandbox: for root every ID that it may map,
// for an ordinary user only its own, as root.
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

// enter sets up this process, the first one of new namespaces: mounts of its own, a /proc that
// shows its own processes, a tmpfs for state, and an exit when the lifeline closes.
func enter(lifeline string) (string, error) {
	fd, err := strconv.Atoi(lifeline)
	if err != nil {
		return "", fmt.Errorf("lifeline descriptor %q: %w", lifeline, err)
	}
	unix.CloseOnExec(fd)
	go func() {
		var b [1]byte
		for {
			n, err := unix.Read(fd, b[:])
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				// The process that created the sandbox has exited. The kernel
				// kills the rest of the sandbox with this process.
				unix.Exit(137)
			}
		}
	}()

	if err := Furnish(); err != nil {
		return "", err
	}
	base, err := mountPoint()
	if err != nil {
		return "", err
	}
	if err := unix.Mount("holdfast", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return "", fmt.Errorf("failed to mount the sandbox's tmpfs on %s: %w", base, err)
	}
	SetCongestionControl()
	if err := unix.Sethostname([]byte("harness")); err != nil {
		return "", fmt.Errorf("failed to set the host name: %w", err)
	}
	return base, nil
}

// Furnish sets up what every set of new namespaces needs: mounts of its own, a /proc that shows the
// processes of its PID namespace, and the loopback interface.
func Furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("failed to make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("failed to mount /proc: %w (in a container, run it with an unmasked /proc)", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("failed to bring up the loopback interface: %w", err)
	}
	return nil
}

// SetCongestionControl makes TCP of this network namespace the same on every host: cubic,
// Linux's default, or its predecessor reno if the kernel lets only root choose cubic. The
// host's own choice may not work here: after a cut of some seconds, BBR mistakes the time until
// a retransmission for the round trip, paces by it, and stays slow for a minute.
func SetCongestionControl() {
	for _, algorithm := range []string{"cubic", "reno"} {
		if os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(algorithm), 0o644) == nil {
			return
		}
	}
}

// mountPoint returns a directory of the host that the sandbox can cover with its own tmpfs: one
// that every Linux system has and that the sandbox does not need.
func mountPoint() (string, error) {
	var needed []string
	if exe, err := os.Executable(); err == nil {
		needed = append(needed, exe)
	}
	if wd, err := os.Getwd(); err == nil {
		needed = append(needed, wd)
	}
	if home, err := os.UserHomeDir(); err == nil {
		needed = append(needed, home)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		needed = append(needed, cache)
	}
	needed = append(needed, os.Args...)
	candidates := []string{"/media", "/mnt", "/srv", "/opt", "/boot"}
next:
	for _, dir := range candidates {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			continue
		}
		for _, p := range needed {
			if real, err := filepath.EvalSymlinks(p); err == nil {
				p = real
			}
			if p == dir || strings.HasPrefix(p, dir+"/") {
				continue next
			}
		}
		return dir, nil
	}
	return "", fmt.Errorf("none of %s can be covered by the sandbox's tmpfs; move the results directory or the program out of one of them",
		strings.Join(candidates, ", "))
}

// BindOver bind-mounts the file src over the system's file dst, if that exists. It follows
// symbolic links, as readers of dst do.
func BindOver(src, dst string) error {
	real, err := filepath.EvalSymlinks(dst)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to resolve %s: %w", dst, err)
	}
	if err := unix.Mount(src, real, "", unix.MS_BIND, ""); err != nil && err != syscall.ENOENT {
		return fmt.Errorf("failed to mount %s over %s: %w", src, real, err)
	}
	return nil
}
