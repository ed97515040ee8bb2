package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// clusterMemory is what a cluster of three nodes uses, with some headroom.
	clusterMemory = 3 << 30
	// buildDisk is what Go's caches need to build one version of Kubernetes; runDisk is for a
	// cluster and its results.
	buildDisk = 8 << 30
	runDisk   = 1 << 30
)

func checkCores() check {
	c := check{Name: "cores"}
	n := runtime.NumCPU()
	if n < 2 {
		return c.fallback(fmt.Sprint(n), "a cluster works, but slowly; verdicts may be inconclusive if holdfast itself is starved of CPU")
	}
	return c.ok("%d", n)
}

func checkMemory() check {
	c := check{Name: "memory", Required: true}
	available, err := system.FreeMemory()
	if err != nil {
		return c.fallback("unknown", fmt.Sprintf("%v; a cluster of three nodes needs 2 to 3 GiB", err))
	}
	if available < 1<<30 {
		return c.missing(mebibytes(available)+" free", "a cluster of one node needs about 1 GiB, one of three 2 to 3 GiB: free some")
	}
	if available < clusterMemory {
		return c.fallback(mebibytes(available)+" free", "enough for one node; three need 2 to 3 GiB")
	}
	return c.ok("%s free", mebibytes(available))
}

// hugePages says for which memory the kernel uses transparent huge pages: the word in brackets.
const hugePages = "/sys/kernel/mm/transparent_hugepage/enabled"

// checkHugePages checks whether Go programs get huge pages. They do not request them by madvise, so
// the kernel's mode must be "always". Page faults are expensive in a virtual machine: creating a
// cluster of three nodes took 20 s of CPU time with huge pages, and 32 s without.
func checkHugePages(file string) check {
	c := check{Name: "huge pages"}
	text, err := os.ReadFile(file)
	if err != nil {
		return c.fallback("not supported by this kernel", "clusters start more slowly without them")
	}
	_, rest, _ := strings.Cut(string(text), "[")
	if mode, _, _ := strings.Cut(rest, "]"); mode != "always" {
		return c.fallback(mode, "in a virtual machine a cluster starts up to a third faster with them; as root: echo always > "+file)
	}
	return c.ok("always")
}

// checkDevice calls lacks if a device cannot be opened.
func checkDevice(file string, lacks func(c check, found, advice string) check, advice string) check {
	c := check{Name: file}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lacks(c, "does not exist", advice)
	case errors.Is(err, fs.ErrPermission):
		return lacks(c, "cannot be opened by this user", advice)
	case err != nil:
		return lacks(c, err.Error(), advice)
	}
	f.Close()
	return c.ok("can be opened")
}

func checkProgram(name string) check {
	c := check{Name: name}
	path, err := system.LookProgram(name)
	if err != nil {
		return c.fallback("not found", fmt.Sprintf("clusters and scenarios that ask for %[1]s cannot run; install %[1]s to test with it", name))
	}
	return c.ok("%s", path)
}

// missingDefaults returns what a default cluster runs and the cache does not have.
func missingDefaults(entries []release.Entry) (missing []release.Product) {
	for _, p := range []release.Product{release.Kubernetes, release.Kwok} {
		if !slices.ContainsFunc(entries, func(e release.Entry) bool {
			return e.Product == p && e.Version == p.Default() && e.Arch == runtime.GOARCH
		}) {
			missing = append(missing, p)
		}
	}
	return missing
}

func checkCache(dir string, err error, missing []release.Product, broken []error) check {
	c := check{Name: "binaries"}
	switch {
	case err != nil:
		c.Required = true
		return c.missing("no cache", err.Error())
	case len(broken) > 0:
		return c.fallback(broken[0].Error(), "it is fetched again when needed")
	case len(missing) > 0:
		names := framework.Names(missing, func(p release.Product) string { return fmt.Sprintf("%s %s", p, p.Default()) })
		return c.fallback(fmt.Sprintf("not in %s: %s", dir, strings.Join(names, ", ")),
			"fetched when needed; to fetch in advance: holdfast fetch "+strings.Join(names, " "))
	}
	return c.ok("kubernetes %s and kwok %s are in %s", release.DefaultKubernetes, release.DefaultKwok, dir)
}

func checkGo(ctx context.Context, missing []release.Product) check {
	c := check{Name: "Go toolchain"}
	path, err := release.FindGo()
	switch {
	case err != nil && slices.Contains(missing, release.Kwok):
		return c.fallback("not found", fmt.Sprintf("kwok %s can only be built: install Go", release.DefaultKwok))
	case err != nil && len(missing) > 0:
		return c.fallback("not found", "binaries can only come from release archives; install Go to build them instead")
	case err != nil:
		return c.fallback("not found", "what is in the cache is used; other versions need Go or a mirror of the release archives")
	}
	out, err := exec.CommandContext(ctx, path, "env", "GOVERSION").Output()
	if err != nil {
		return c.missing(fmt.Sprintf("%s env GOVERSION: %v", path, err), "repair the Go installation")
	}
	return c.ok("%s, %s", strings.TrimSpace(string(out)), path)
}

func checkDisk(cacheDir string, built bool) check {
	c := check{Name: "disk"}
	dir := cacheDir
	for dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return c.fallback("unknown", fmt.Sprintf("statfs %s: %v", dir, err))
	}
	free := st.Bavail * uint64(st.Bsize)
	switch {
	case free < runDisk:
		return c.missing(mebibytes(free)+" free in "+dir, "results and records need up to 1 GiB: free some, or set XDG_CACHE_HOME")
	case free < buildDisk && !built:
		return c.fallback(mebibytes(free)+" free in "+dir, "may be too little to build Kubernetes (8 GiB): free some, or use a mirror of the release archives")
	}
	return c.ok("%s free in %s", mebibytes(free), dir)
}
