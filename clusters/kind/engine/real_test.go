package engine

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/cgroup"
)

// TestForReal starts the dockerd that is installed, runs containers, stops it,
// starts it again on the same data, and looks for what is left. It needs root,
// what Problems asks for, and about a minute:
//
//	HOLDFAST_TEST_KIND=1 go test ./clusters/kind/engine -run ForReal -v
func TestForReal(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_KIND") == "" {
		t.Skip("set HOLDFAST_TEST_KIND=1 to start the Docker engine that is installed")
	}
	if problems := Blocking(Problems()); len(problems) > 0 {
		t.Fatalf("this machine lacks %s; %s", Missing(problems), Advice(problems))
	}
	l := &lab{t: t}
	l.runIn(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	before := outside(t)
	c := Config{Timeout: 2 * time.Minute, Progress: func(s string) { t.Log(s) }}
	t.Cleanup(func() {
		// The test's own context has ended already.
		if _, err := Remove(context.Background(), c); err != nil {
			t.Error(err)
		}
	})

	began := time.Now()
	e, err := Start(t.Context(), c) // runs a privileged container
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s after %s", e, time.Since(began).Round(10*time.Millisecond))
	if e.Warning != "" {
		t.Log(e.Warning)
	}
	if s := look(t, e); !slices.Contains(s.Interfaces, "docker0") || !slices.Contains(s.Interfaces, "lo") || s.Forward != "1" {
		t.Errorf("the engine's network is %+v", s)
	}
	image, err := probeImage(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.output(t.Context(), strings.NewReader(string(image)), "import", "-", "holdfast/probe:test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.output(t.Context(), nil, "network", "create", "--subnet", "172.30.0.0/16", "test"); err != nil {
		t.Error(err)
	}
	// As a node of kind: in a network of its own, with an address that is asked for.
	_, err = e.output(t.Context(), nil, "run", "--name", "probe", "--privileged", "--cgroupns", "private", "--network", "test",
		"--ip", "172.30.0.10", "--tmpfs", "/tmp", "--volume", "/var", "--volume", "/lib/modules:/lib/modules:ro", "holdfast/probe:test", "/"+probeFile)
	if err == nil || !strings.Contains(err.Error(), "exit status 42") {
		t.Errorf("a container in a network ended with %v", err)
	}
	groups, err := cgroup.Mounts()
	if err != nil {
		t.Fatal(err)
	}

	if _, err := Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.empty(first(e), true)
	for _, m := range groups {
		if dir := filepath.Join(m.Dir, l.place().cgroupParent()); exists(dir) {
			t.Errorf("the control group %s is left", dir)
		}
	}
	if left := difference(outside(t), before); len(left) > 0 {
		t.Errorf("left on this machine: %q", left)
	}

	again, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.output(t.Context(), nil, "images", "--quiet", "--no-trunc", "holdfast/probe:test"); err != nil || got != id {
		t.Errorf("the image %s is now %q, %v", id, got, err)
	}
	if removed, err := Remove(t.Context(), c); err != nil || !removed {
		t.Errorf("removed: %v, %v", removed, err)
	}
	l.empty(first(again), false)
	if left := difference(outside(t), before); len(left) > 0 {
		t.Errorf("left on this machine: %q", left)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// outside lists what an engine might leave on the machine: files that dockerd and
// containerd are known to make, mounts, and PID namespaces that have processes.
func outside(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/etc/docker/*", "/opt/containerd", "/lib/modules", "/var/lib/docker", "/var/lib/containerd", "/run/docker*", "/run/containerd", "/run/xtables.lock"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, strings.Split(string(mounts), "\n")...)
	namespaces, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, file := range namespaces {
		if ns, err := os.Readlink(file); err == nil && !slices.Contains(all, ns) {
			all = append(all, ns)
		}
	}
	return all
}

func difference(a, b []string) []string {
	return slices.DeleteFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
