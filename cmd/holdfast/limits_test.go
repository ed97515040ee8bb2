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

	"github.com/holdfast-ha/holdfast/framework/polltest"
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
	first := limit()
	if err := syscall.Kill(keeper(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the keeper is gone", func() bool {
		_, code := c.try("status")
		return code != exitPass
	})
	second := limit()
	polltest.Until(t, "the next cluster has removed "+first, func() bool { return gone(first) })
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
	polltest.Until(t, "the keeper has removed "+second, func() bool { return gone(second) })
}
