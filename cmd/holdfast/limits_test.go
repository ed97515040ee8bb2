package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestClusterLimitsLeftBehind kills the keeper of a cluster while a component is in a control
// group, which the kernel keeps. The keeper, or the next cluster, removes it.
func TestClusterLimitsLeftBehind(t *testing.T) {
	c := newCommandLine(t)
	limit := func() (tree string) {
		c.up("--nodes", "1")
		out, code := c.try("inject", "cpu-pressure", "--on", "kcm/1", "--for", "1h", "quota=30")
		if code != exitPass {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		m := regexp.MustCompile(`by cgroup (\S+)/kube-controller-manager,`).FindStringSubmatch(out)
		if m == nil {
			t.Skipf("no control groups here: %s", out)
		}
		return m[1]
	}
	keeper := func() int {
		b, err := os.ReadFile(c.run + "/holdfast/holdfast/lock")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	gone := func(dir string) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	awaitGone := func(dir, who string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !gone(dir); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is still there after %s", dir, who)
			}
		}
	}
	first := limit()
	if err := syscall.Kill(keeper(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, code := c.try("status"); code != exitPass {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the keeper outlives SIGKILL")
		}
	}
	second := limit()
	awaitGone(first, "the next cluster was made")
	// The kernel lists a child with the thread that started it.
	var children []byte
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(keeper()) + "/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		children = append(children, b...)
	}
	pid, err := strconv.Atoi(string(regexp.MustCompile(`\d+`).Find(children)))
	if err != nil {
		t.Fatalf("the keeper has children %q: %v", children, err)
	}
	if gone(second) {
		t.Fatalf("%s is gone before its cluster ends", second)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(second, "its keeper has ended")
}
