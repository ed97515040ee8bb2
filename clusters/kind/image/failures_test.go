package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

// Each failure says what to do, and leaves nothing half-made.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(*fake)
		want    []string
	}{
		{"no engine", func(f *fake) { f.put("down", "") }, []string{"no Docker engine answers at unix:///fake/docker.sock", "holdfast kind engine"}},
		{"another architecture", func(f *fake) { f.put("arch", "s390x") }, []string{"runs programs for s390x, and this one is for " + runtime.GOARCH}},
		{"the engine's disk is full", func(f *fake) { f.put("full", "") }, []string{"node image of Kubernetes v1.99.3", "the disk of the Docker engine is full", "3.0 GiB", "DockerRootDir"}},
		{"the engine's disk will be full", func(f *fake) {
			f.free = func(dir string) (uint64, error) {
				if dir == f.engine {
					return 1 << 30, nil
				}
				return 100 << 30, nil
			}
		}, []string{"1.0 GiB free in", "needs about 3.0 GiB"}},
		{"the disk of the cache will be full", func(f *fake) {
			f.free = func(dir string) (uint64, error) {
				if dir == f.dir {
					return 200 << 20, nil
				}
				return 100 << 30, nil
			}
		}, []string{"200 MiB free in", "XDG_CACHE_HOME"}},
		{"not root", func(f *fake) { f.root = false }, []string{"requires root"}},
		{"no Debian", func(f *fake) { f.put("nodebian", "") }, []string{"debootstrap", "Failed getting release file", "Debian mirror " + DefaultDebianMirror}},
		{"containerd does not start", func(f *fake) { f.put("broken", "") }, []string{"containerd did not start", "containerd is broken"}},
		{"no source of kind", func(f *fake) {
			f.source = func(context.Context, string, string) (string, error) { return "", errors.New("no Go toolchain") }
		}, []string{"kind's files for nodes", "no Go toolchain"}},
		{"the balancer does not run", func(f *fake) { f.put("banner", "usage: program") }, []string{"image of the balancer", "Reexec", "CGO_ENABLED=0"}},
		{"binaries are not available", func(f *fake) {
			f.fetch = func(context.Context, release.Product, string) (release.Entry, error) {
				return release.Entry{}, &release.VersionError{Product: release.Kubernetes, Version: "v1.99.3", Problem: "does not exist"}
			}
		}, []string{"kubernetes v1.99.3 does not exist"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, sourceBuild)
			test.prepare(f)
			_, err := f.ensure(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			f.assertClean()
		})
	}
}

func TestMissingPrograms(t *testing.T) {
	f := newFake(t, sourceBuild)
	t.Setenv("PATH", t.TempDir())
	if _, err := f.ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "apt-get install docker.io") {
		t.Errorf("without docker: %v", err)
	}
}

// The root file system is there after a failure that came later.
func TestRootFSIsKept(t *testing.T) {
	f := newFake(t, sourceBuild)
	f.put("full", "")
	if _, err := f.ensure(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if err := os.Remove(filepath.Join(f.engine, "full")); err != nil {
		t.Fatal(err)
	}
	f.root = false // it need not be made again
	if _, err := f.ensure(t.Context()); err != nil || len(f.asked("debootstrap")) != 1 {
		t.Errorf("%v; debootstrap was called: %q", err, f.asked("debootstrap"))
	}
}

func TestInterrupted(t *testing.T) {
	f := newFake(t, sourceBuild)
	f.put("hang", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := f.ensure(ctx)
		done <- err
	}()
	within(t, "an image is being put into the node image", func() bool { return len(f.list("imports")) > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	f.assertClean()
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := Ensure(t.Context(), Config{Kubernetes: []string{"1.37"}}); !errors.As(err, new(*release.VersionError)) {
		t.Errorf("error for a version that is none = %v", err)
	}
	if _, err := Ensure(t.Context(), Config{Source: "moon"}); err == nil || !strings.Contains(err.Error(), "auto") {
		t.Errorf("error for a source that is none = %v", err)
	}
}
