package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
	"github.com/holdfast-ha/holdfast/framework/polltest"
)

const (
	roleDisk   = "disk-test-server"
	roleWriter = "disk-test-writer"
)

// TestMain runs the tests in a sandbox, where any user may mount.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case roleDisk:
		fmt.Fprintln(os.Stderr, Serve(os.Args[1:]))
		os.Exit(1)
	case roleWriter:
		os.Exit(runWriter(os.Args[1]))
	}
	os.Exit(sandboxtest.Main(m))
}

// needFUSE skips a test where no disk can be mounted.
func needFUSE(t testing.TB) {
	t.Helper()
	sandboxtest.Need(t)
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

var eventually = polltest.Within

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
