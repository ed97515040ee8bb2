package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// DefaultDebianMirror is the default package mirror of debootstrap.
const DefaultDebianMirror = "http://deb.debian.org/debian"

// debianSuite is the release of Debian that images have.
const debianSuite = "bookworm"

// packages are installed in addition to Debian's minimal system.
var packages = []string{
	"systemd", "dbus",
	// for Kubernetes; netbase has the protocol names that nft needs
	"conntrack", "ethtool", "iproute2", "iptables", "kmod", "mount", "netbase", "nftables", "socat",
	// for containerd
	"libseccomp2", "runc",
	// for kind and for people
	"ca-certificates", "curl", "jq", "procps",
}

// unwanted are removed from the root file system, as patterns.
var unwanted = []string{
	// What images/base/Dockerfile of kind removes: services of systemd that a node does not
	// need or must not have.
	"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
	"usr/lib/systemd/system/multi-user.target.wants/*",
	"usr/lib/systemd/system/local-fs.target.wants/*",
	"usr/lib/systemd/system/sockets.target.wants/*udev*",
	"usr/lib/systemd/system/sockets.target.wants/*initctl*",
	"usr/lib/systemd/system/basic.target.wants/*",
	"etc/systemd/system/*.wants/*",
	"var/cache/debconf/*", "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*",
	"tmp/*", "var/tmp/*",
	"usr/share/doc/*", "usr/share/doc-base/*", "usr/share/man/*", "usr/share/locale/*",
	// With the same ones all nodes would be one machine.
	"etc/machine-id", "var/lib/dbus/machine-id",
	// debootstrap copies these from this machine.
	"etc/hostname", "etc/resolv.conf",
}

// rootfsKey names a root file system by its inputs.
func (b *builder) rootfsKey() string {
	return key("rootfs", recipe, b.arch, debianSuite, packages, unwanted)
}

// rootfs returns a tar file with the root file system of both images, and builds it if the
// cache does not have it. The caller holds the lock.
func (b *builder) rootfs(ctx context.Context) (file string, err error) {
	file = filepath.Join(b.dir, "rootfs-"+b.rootfsKey()+".tar")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	if !b.root {
		return "", errors.New("making a root file system requires root: run this once as root (sudo), with the same cache (XDG_CACHE_HOME)")
	}
	if err := b.needSpace(b.dir, cacheSpace, "free some, or name another cache with XDG_CACHE_HOME"); err != nil {
		return "", err
	}
	work, remove, err := b.workDir()
	if err != nil {
		return "", err
	}
	defer remove()
	b.Progress.Say("making a root file system of Debian %s with debootstrap", debianSuite)
	root := filepath.Join(work, "root")
	if err := b.debootstrap(ctx, root); err != nil {
		return "", fmt.Errorf("failed to make a root file system: %w", err)
	}
	if err := strip(root); err != nil {
		return "", fmt.Errorf("failed to strip the root file system: %w", err)
	}
	b.Progress.Status("packing the root file system")
	made := filepath.Join(work, "rootfs.tar")
	if err := pack(ctx, root, made); err != nil {
		return "", fmt.Errorf("failed to pack the root file system: %w", err)
	}
	return file, os.Rename(made, file)
}

func (b *builder) debootstrap(ctx context.Context, root string) error {
	c := command.Command{
		Name: "debootstrap", Package: "debootstrap",
		Args: []string{"--variant=minbase", "--include=" + strings.Join(packages, ","), debianSuite, root, b.DebianMirror},
		// It mounts /proc and /sys in there. These must be unmounted before a partial result is
		// removed.
		OwnMounts: b.ownDirs,
		Lines: func(line string) {
			if text, ok := strings.CutPrefix(line, "I: "); ok {
				b.Progress.Status("debootstrap: %s", text)
			}
		},
	}
	_, err := c.Run(ctx)
	if errors.As(err, new(*command.Error)) {
		return fmt.Errorf("%w\n\tIs the Debian mirror %s reachable, and is %s on a file system without nodev and noexec?", err, b.DebianMirror, b.dir)
	}
	return err
}

// strip removes what is unwanted.
func strip(root string) error {
	// Links in there point to paths of this machine; they are not followed.
	dir, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, pattern := range unwanted {
		matches := []string{pattern}
		if strings.Contains(pattern, "*") {
			if matches, err = fs.Glob(dir.FS(), pattern); err != nil {
				return err
			}
		}
		for _, name := range matches {
			if err := dir.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack writes a tar file of the root file system, and syncs it: the file must not appear before
// its content.
func pack(ctx context.Context, root, file string) error {
	c := command.Command{Name: "tar", Package: "tar", Args: []string{
		"--create", "--file", file, "--directory", root, "--numeric-owner", "--one-file-system", "--sort=name",
		// An engine refuses device nodes, and creates its own.
		"--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./run/*", ".",
	}}
	if _, err := c.Run(ctx); err != nil {
		return err
	}
	return system.Sync(file)
}
