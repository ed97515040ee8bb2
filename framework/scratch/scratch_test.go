package scratch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const prefix = "holdfast-test-"

// holdsOne is set in a process that makes a directory and does not remove it.
const holdsOne = "HOLDFAST_TEST_SCRATCH"

func TestMain(m *testing.M) {
	if os.Getenv(holdsOne) == "" {
		os.Exit(m.Run())
	}
	dir, _, err := Dir(prefix)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "snapshot.db"), []byte("secret"), 0o600)
	}
	fmt.Println(dir, err)
	select {}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(holdsOne, "yes")
	other := exec.Command("/proc/self/exe")
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	theirs, problem, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || problem != "<nil>" {
		t.Fatal(line, err)
	}
	kept := t.TempDir()
	link, file := filepath.Join(os.TempDir(), prefix+"link"), filepath.Join(os.TempDir(), prefix+"file")
	if err := os.Symlink(kept, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	mine, remove, err := Dir(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(mine); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if !exists(theirs) {
		t.Error("the directory of a process that runs was removed")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	_, again, err := Dir(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if exists(theirs) {
		t.Error("the directory of a killed process is left")
	}
	if !exists(mine) || !exists(kept) || !exists(link) || !exists(file) {
		t.Error("more was removed than that")
	}
	if err := remove(); err != nil || exists(mine) {
		t.Errorf("not removed: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

// TestDirsAtOnce: a new directory is not removed before it is locked.
func TestDirsAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				dir, remove, err := Dir(prefix)
				if err != nil {
					t.Error(err)
					return
				}
				if !exists(dir) {
					t.Error("the directory is gone")
				}
				if err := remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestDirFails(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if dir, _, err := Dir(prefix); err == nil {
		t.Errorf("made %s", dir)
	}
}
