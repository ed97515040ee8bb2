package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// real returns a place for trees of a controller.
func real(t *testing.T, c Controller) Place {
	t.Helper()
	places, why := Find()
	for _, p := range places {
		if p.Has(c) {
			return p
		}
	}
	t.Skipf("no control groups for %s here: %v", c, why[c])
	return Place{}
}

// sleeper starts a process that does nothing, or busily so.
func sleeper(t *testing.T, command ...string) int {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestQuota(t *testing.T) {
	tree, err := real(t, CPU).Make("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Remove() })
	dir, err := tree.Group("busy")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.SetQuota(dir, 20); err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t, "sh", "-c", "while :; do :; done")
	if err := Move(dir, pid); err != nil {
		t.Fatal(err)
	}
	if pids, err := Processes(dir); err != nil || !slices.Contains(pids, pid) {
		t.Errorf("the group has %v, %v", pids, err)
	}
	var u framework.LimitReading
	for deadline := time.Now().Add(time.Minute); u.Throttled == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if u, err = tree.Usage(dir); err != nil {
			t.Fatal(err)
		}
	}
	if u.CPU != 20 || u.Throttled == 0 {
		t.Errorf("a busy process under a quota: %+v", u)
	}
	if err := tree.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tree.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if err := Move(tree.home, pid); err != nil {
		t.Errorf("its process: %v", err)
	}
}

// A sweep that finds a new tree before it is locked does not make its creation fail.
func TestMakeDuringSweep(t *testing.T) {
	p := Place{base: t.TempDir()}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, name := range subgroups(p.base) {
				dir := filepath.Join(p.base, name)
				if lock, err := scratch.Hold(dir); err == nil {
					_ = os.Remove(dir)
					_ = lock.Close()
				}
			}
		}
	}()
	for range 300 {
		tree, err := p.Make("test")
		if err != nil {
			t.Fatal(err)
		}
		_ = tree.lock.Close()
	}
}

func TestMemoryLimit(t *testing.T) {
	tree, err := real(t, Memory).Make("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Remove() })
	const limit = 32 << 20
	if err := tree.SetMemory(tree.Dir(), 0, limit); err != nil {
		t.Fatal(err)
	}
	if u, err := tree.Usage(tree.Dir()); err != nil || u.Memory != limit {
		t.Errorf("%+v, %v", u, err)
	}
	if err := tree.SetMemory(tree.Dir(), 0, 0); err != nil {
		t.Fatal(err)
	}
	if u, err := tree.Usage(tree.Dir()); err != nil || u.Memory != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestSweep leaves trees behind in all ways there are.
func TestSweep(t *testing.T) {
	p := real(t, CPU)
	make := func() *Tree {
		tree, err := p.Make("test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Group("inner"); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	used, left, busy := make(), make(), make()
	t.Cleanup(func() { _, _, _ = used.Remove(), left.Remove(), busy.Remove() })
	// As if their owners had died.
	_, _ = left.lock.Close(), busy.lock.Close()
	if err := Move(filepath.Join(busy.Dir(), "inner"), sleeper(t, "sleep", "60")); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	for tree, stays := range map[*Tree]bool{used: true, left: false, busy: true} {
		_, err := os.Stat(filepath.Join(tree.Dir(), "inner"))
		if tree == left {
			_, err = os.Stat(tree.Dir())
		}
		if stays == errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: stays %v: %v", tree.Dir(), !stays, err)
		}
	}
}

// files are those of a fake group.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestVersion2 reads and writes files as version 2 has them.
func TestVersion2(t *testing.T) {
	tree := &Tree{Place: Place{Controllers: []Controller{CPU, Memory}, V2: true}}
	dir := files(t, map[string]string{
		"cpu.max": "", "memory.high": "max\n", "memory.max": "max\n", "memory.current": "4096\n",
		"cpu.stat":      "usage_usec 5\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2500\n",
		"memory.events": "low 0\nhigh 4\nmax 1\noom 1\noom_kill 2\n",
	})
	read := func(file string) string {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := tree.SetQuota(dir, 20); err != nil || read("cpu.max") != "20000 100000" {
		t.Errorf("%q, %v", read("cpu.max"), err)
	}
	want := framework.LimitReading{CPU: 20, Periods: 7, Throttled: 3, ThrottledFor: 2500 * time.Microsecond, MemoryUsed: 4096, MemoryHits: 5, OOMKills: 2}
	if u, err := tree.Usage(dir); err != nil || !reflect.DeepEqual(u, want) {
		t.Errorf("%+v, %v", u, err)
	}
	dir = files(t, map[string]string{"cpu.max": "", "memory.high": "", "memory.max": ""})
	if err := tree.SetQuota(dir, 0); err != nil || read("cpu.max") != "max 100000" {
		t.Errorf("%q, %v", read("cpu.max"), err)
	}
	if err := tree.SetMemory(dir, 8192, 0); err != nil || read("memory.high") != "8192" || read("memory.max") != "max" {
		t.Errorf("%q, %q, %v", read("memory.high"), read("memory.max"), err)
	}
}

func TestHierarchies(t *testing.T) {
	dir := t.TempDir()
	unified := filepath.Join(dir, "unified", "user.slice", "run.scope")
	if err := os.MkdirAll(unified, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unified, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		mounts, own string
		want        []Place
	}{
		"version 1": {
			mounts: "30 23 0:26 / DIR/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n31 23 0:27 /docker/x DIR/memory rw - cgroup cgroup rw,memory\n32 23 0:28 / DIR/pids rw - cgroup cgroup rw,pids\n",
			own:    "3:pids:/\n2:memory:/docker/x/y\n1:cpu,cpuacct:/\n0::/\n",
			want:   []Place{{Controllers: []Controller{CPU}, home: dir + "/cpu"}, {Controllers: []Controller{Memory}, home: dir + "/memory/y"}},
		},
		"version 2": {
			mounts: "30 23 0:26 / DIR/unified rw - cgroup2 cgroup2 rw\n",
			own:    "0::/user.slice/run.scope\n",
			want:   []Place{{Controllers: []Controller{CPU, Memory}, V2: true, home: unified}},
		},
		"mounted from elsewhere": {mounts: "30 23 0:26 /other DIR/cpu rw - cgroup cgroup rw,cpu\n", own: "1:cpu:/mine\n"},
		"none":                   {mounts: "30 23 0:26 / /proc rw - proc proc rw\n", own: "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			at := files(t, map[string]string{"mounts": strings.ReplaceAll(tt.mounts, "DIR", dir), "own": tt.own})
			got, err := system{mounts: filepath.Join(at, "mounts"), own: filepath.Join(at, "own")}.hierarchies()
			if err != nil || !slices.EqualFunc(got, tt.want, func(a, b Place) bool {
				return slices.Equal(a.Controllers, b.Controllers) && a.V2 == b.V2 && a.home == b.home
			}) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"parent/busy", "parent/container/kubelet/pods"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busy := filepath.Join(dir, "parent/busy/file") // as a group with processes, its folder cannot be removed
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(filepath.Join(dir, "parent"), time.Now()); err == nil || !strings.Contains(err.Error(), "parent/busy") {
		t.Errorf("the error with a busy group is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "parent/container")); !os.IsNotExist(err) {
		t.Errorf("what follows a busy group is still there: %v", err)
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(filepath.Join(dir, "parent"), time.Now().Add(time.Second)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "parent")); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := RemoveAll(filepath.Join(dir, "parent"), time.Now()); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}
