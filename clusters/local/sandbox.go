package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sandboxInfo is what the sandbox's first process knows of its sandbox.
type sandboxInfo struct {
	// dir is a tmpfs that only the sandbox sees; it goes with it.
	dir string
}

// enterSandbox makes this process, the first one of new namespaces, at home in
// them: mounts of its own, a /proc that shows its own processes, a tmpfs for
// state, and an end when the lifeline ends.
func enterSandbox(lifeline string) (*sandboxInfo, error) {
	fd, err := strconv.Atoi(lifeline)
	if err != nil {
		return nil, fmt.Errorf("lifeline descriptor %q: %w", lifeline, err)
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
				// Whoever made the sandbox is gone. The kernel ends the
				// rest of the sandbox with this process.
				unix.Exit(137)
			}
		}
	}()

	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("making mounts private: %w", err)
	}
	if err := mountProc(); err != nil {
		return nil, err
	}
	base, err := mountPoint()
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("holdfast", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return nil, fmt.Errorf("mounting the sandbox's tmpfs on %s: %w", base, err)
	}
	setCongestionControl()
	if err := unix.Sethostname([]byte("harness")); err != nil {
		return nil, fmt.Errorf("setting the host name: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return nil, fmt.Errorf("bringing up the loopback interface: %w", err)
	}
	return &sandboxInfo{dir: base}, nil
}

func mountProc() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w (in a container, run it with an unmasked /proc)", err)
	}
	return nil
}

// setCongestionControl makes TCP of this network namespace the same on every
// host: cubic, Linux's default, or its forerunner reno where the kernel lets
// only root choose cubic. A host's own choice may be one that is no use here:
// after a cut of some seconds, BBR takes the time until a retransmission for
// the round trip, paces by it, and stays slow for a minute.
func setCongestionControl() {
	for _, algorithm := range []string{"cubic", "reno"} {
		if os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(algorithm), 0o644) == nil {
			return
		}
	}
}

// mountPoint returns a directory of the host that the sandbox can cover with
// its own tmpfs: one that every Linux system has and that holds nothing the
// sandbox needs.
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

// bindOver bind-mounts the file src over the system's file dst, where that
// exists. A symbolic link is followed, as readers of dst do.
func bindOver(src, dst string) error {
	real, err := filepath.EvalSymlinks(dst)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("resolving %s: %w", dst, err)
	}
	if err := unix.Mount(src, real, "", unix.MS_BIND, ""); err != nil && err != syscall.ENOENT {
		return fmt.Errorf("mounting %s over %s: %w", src, real, err)
	}
	return nil
}
