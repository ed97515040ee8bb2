package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk passes, to a copy of the test binary in its own namespaces, the directory on which it
// mounts a file system that is too small.
const smallDisk = "HOLDFAST_REPORTS_TEST_SMALL_DISK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(smallDisk); dir != "" {
		os.Exit(writeToSmallDisk(dir))
	}
	os.Exit(m.Run())
}

// noNamespaces is the exit status of a copy that may not mount.
const noNamespaces = 77

func writeToSmallDisk(dir string) int {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		fmt.Println("mount:", err)
		return noNamespaces
	}
	old := filepath.Join(dir, ResultsFile)
	if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
		fmt.Println(err)
		return 1
	}
	err := Write(dir, fixtureRun(), fixtureResults(), fixtureRecords(), nil)
	fmt.Println(err)
	entries, _ := os.ReadDir(dir)
	data, _ := os.ReadFile(old)
	if !errors.Is(err, syscall.ENOSPC) || len(entries) != 1 || string(data) != "old" {
		fmt.Printf("files left: %v, old file: %q\n", entries, data)
		return 1
	}
	return 0
}

func TestFullDisk(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), smallDisk+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit), exit != nil && exit.ExitCode() == noNamespaces:
		t.Skipf("no file system of its own can be mounted here: %v %s", err, out)
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{dir, "no space left on device", "the disk is full", "--out"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("error %q lacks %q", out, want)
		}
	}
}

func TestWriteOverAnEarlierRendering(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := Write(dir, fixtureRun(), fixtureResults(), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("%d entries, want 6: %v %v", len(entries), entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: mode %v, want 0644", e.Name(), info.Mode())
		}
	}
}

func TestWriteWhereNobodyMay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := Write(filepath.Join(file, "out"), Run{}, nil, nil, nil)
	if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "--out") {
		t.Errorf("error %v, want not a directory and what to do", err)
	}
	err = writeError("/x", &fs.PathError{Op: "open", Path: "/x/y", Err: syscall.EROFS})
	if !strings.Contains(err.Error(), "may not write") {
		t.Errorf("error %v", err)
	}
}
