package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox"
)

// furnish prepares the sandbox for dockerd: mounts of its own, a /proc that shows its own
// processes, an empty /run, an isolated network. /sys stays that of the machine: dockerd needs
// its control groups, and the kernel lets containers mount a sysfs only as long as one is fully
// visible.
func furnish(cfg initConfig) error {
	if err := sandbox.Furnish(); err != nil {
		return err
	}
	if err := coverRun(cfg.StateDir, cfg.DataDir); err != nil {
		return err
	}
	if err := os.WriteFile(daemonConfig, []byte("{}\n"), 0o600); err != nil {
		return fmt.Errorf("failed to write dockerd's configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(cfg.DataDir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("failed to make the engine's directory for temporary files: %w", err)
	}
	keepOut()
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("failed to enable packet forwarding: %w", err)
	}
	raiseLimits()
	return nil
}

// coverRun mounts a tmpfs on /run, where the machine's own dockerd, containerd
// and D-Bus have their sockets. Directories of the machine that are below it
// stay where they are.
func coverRun(keep ...string) error {
	var below []*os.File
	for _, dir := range keep {
		if !strings.HasPrefix(dir, "/run/") {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("failed to open a directory below /run: %w", err)
		}
		defer f.Close()
		below = append(below, f)
	}
	if err := unix.Mount("holdfast", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("failed to mount a tmpfs on /run: %w", err)
	}
	for _, f := range below {
		if err := os.MkdirAll(f.Name(), 0o700); err != nil {
			return fmt.Errorf("failed to make a directory below /run: %w", err)
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f.Name(), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("failed to mount %s in the sandbox: %w", f.Name(), err)
		}
	}
	return nil
}

// keepOut keeps dockerd and containerd from writing to the machine's /etc/docker (a key),
// /opt/containerd and, if a container of kind requests modules that the machine does not have,
// /lib/modules (empty directories). It mounts overlays that disappear with the sandbox. If the
// kernel does not allow that, the files stay behind.
func keepOut() {
	dirs := []string{"/etc", "/opt"}
	if _, err := os.Stat("/lib/modules"); errors.Is(err, fs.ErrNotExist) {
		dirs = append(dirs, "/lib")
	}
	for _, dir := range dirs {
		layer := filepath.Join("/run/holdfast", filepath.Base(dir))
		upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
		if os.MkdirAll(upper, 0o755) == nil && os.MkdirAll(work, 0o755) == nil {
			_ = mountOverlay(dir, upper, work, dir)
		}
	}
}

// mountOverlay mounts an overlay as a user namespace may: with its metadata in user extended
// attributes.
func mountOverlay(lower, upper, work, at string) error {
	return unix.Mount("overlay", at, "overlay", 0,
		fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work))
}

// raiseLimits lets containers have as many open files and processes as this process may; with a
// shell's usual 1024 files a node of kind does not come up.
func raiseLimits() {
	for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) == nil {
			l.Cur = l.Max
			_ = unix.Setrlimit(resource, &l)
		}
	}
}

// Storage drivers of dockerd, the best first.
const (
	driverOverlay2    = "overlay2"
	driverFuseOverlay = "fuse-overlayfs"
	driverVFS         = "vfs"
)

// refused are file systems on which dockerd does not accept overlay2, whatever the kernel
// supports.
var refused = map[int64]string{
	0x61756673: "AUFS",
	0x0000f15f: "eCryptfs",
	0x00006969: "NFS",
	0x794c7630: "overlayfs",
	0x2fc12fc1: "ZFS",
}

// storageDriver returns the storage driver for a data directory, found by trying, and a warning
// if it is not a good one.
func storageDriver(dir string, fuse bool) (driver, warning string) {
	err := tryOverlay(dir)
	if err == nil {
		return driverOverlay2, ""
	}
	const advice = "; with XDG_CACHE_HOME on another disk (ext4, XFS or Btrfs) overlay2 works"
	if fuse {
		return driverFuseOverlay, fmt.Sprintf("images and containers are stored with %s, which is slower than overlay2: %v%s", driverFuseOverlay, err, advice)
	}
	return driverVFS, fmt.Sprintf("images and containers are stored with %s, which copies each image for each container: %v%s; fuse-overlayfs (the Debian package) is used if it is installed",
		driverVFS, err, advice)
}

// tryOverlay mounts an overlay with its layers in a directory.
func tryOverlay(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if name, no := refused[int64(st.Type)]; no {
		return fmt.Errorf("%s is on %s", dir, name)
	}
	trial, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(trial)
	part := func(name string) string { return filepath.Join(trial, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		err = errors.Join(err, os.Mkdir(part(name), 0o755))
	}
	err = errors.Join(err, os.WriteFile(part("lower/file"), nil, 0o644))
	if err != nil {
		return err
	}
	// Without these an overlay loses whiteouts of removed files.
	if err := unix.Setxattr(part("upper"), "user.holdfast", []byte("1"), 0); err != nil {
		return fmt.Errorf("%s has no extended attributes: %w", dir, err)
	}
	if err := mountOverlay(part("lower"), part("upper"), part("work"), part("merged")); err != nil {
		return fmt.Errorf("failed to mount an overlay on %s in a user namespace: %w", dir, err)
	}
	defer unix.Unmount(part("merged"), unix.MNT_DETACH)
	if err := os.Remove(part("merged/file")); err != nil {
		return fmt.Errorf("failed to remove a file of an overlay on %s: %w", dir, err)
	}
	if _, err := os.Stat(part("merged/file")); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("an overlay on %s keeps what is removed", dir)
	}
	return nil
}
