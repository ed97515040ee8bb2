package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

func first(e Engine) procfs.Process {
	return procfs.Process{Proc: "/proc", PID: e.PID, Stat: procfs.Stat{StartTicks: e.StartTicks}}
}

func TestStart(t *testing.T) {
	l := newLab(t).namespaces()
	e := l.start()
	if e.Source != SourceHoldfast || e.Host != l.place().address() || e.Version != "20.10.24" || e.PID == 0 || e.Started.IsZero() {
		t.Errorf("%+v", e)
	}
	if err := e.Reachable(); err != nil {
		t.Error(err)
	}

	own, _ := os.Readlink("/proc/self/ns/net")
	s := look(t, e)
	if s.Network == own || !slices.Equal(s.Interfaces, []string{"lo"}) || !s.Up || s.Forward != "1" {
		t.Errorf("the engine's network is %+v, this one is %s", s, own)
	}
	if s.DockerHost != e.Host || s.Extra != "passed on\n" || !slices.Equal(s.Args, []string{"one", "two three"}) || s.UID != 0 {
		t.Errorf("a command in the engine's network found %+v", s)
	}

	for what, find := range map[string]func() (Engine, error){
		"Find":   func() (Engine, error) { return Find(t.Context()) },
		"Ensure": func() (Engine, error) { return Ensure(t.Context(), Config{}) },
		"Start":  func() (Engine, error) { return Start(t.Context(), Config{}) },
	} {
		if got, err := find(); err != nil || got.PID != e.PID || got.Source != SourceHoldfast {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	st, err := Inspect(Config{})
	if err != nil || !st.Running || st.PID != e.PID || st.Host != e.Host || st.Log == "" || st.DataDir == "" {
		t.Errorf("%+v, %v", st, err)
	}

	stopped, err := Stop(t.Context())
	if err != nil || !stopped {
		t.Errorf("stopped: %v, %v", stopped, err)
	}
	if l.told("terminated") == "" {
		t.Error("dockerd was not asked to end")
	}
	l.empty(first(e), true)
	if stopped, err := Stop(t.Context()); err != nil || stopped {
		t.Errorf("stopped again: %v, %v", stopped, err)
	}
	cmd, err := e.Command(t.Context(), "true")
	if err == nil {
		err = cmd.Run()
	}
	if err == nil {
		t.Error("a command ran in the network of an engine that has ended")
	}
	if removed, err := Remove(t.Context(), Config{}); err != nil || !removed {
		t.Errorf("removed: %v, %v", removed, err)
	}
	l.empty(first(e), false)
	if removed, err := Remove(t.Context(), Config{}); err != nil || removed {
		t.Errorf("removed again: %v, %v", removed, err)
	}
}

func TestStartWhereRunIsCovered(t *testing.T) {
	l := newLab(t)
	// As with systemd's XDG_RUNTIME_DIR; no directory for tests is below /run.
	run, err := os.MkdirTemp("/run", "holdfast-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	l.runIn(run)
	l.namespaces()
	e := l.start()
	if s := look(t, e); s.DockerHost != e.Host {
		t.Errorf("%+v", s)
	}
	if _, err := Stop(t.Context()); err != nil {
		t.Error(err)
	}
	l.empty(first(e), true)
}

func TestDaemon(t *testing.T) {
	l := newLab(t).namespaces()
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	l.start()
	var d struct {
		Args, Env []string
		Mounts    string
	}
	if err := json.Unmarshal([]byte(l.told("daemon")), &d); err != nil {
		t.Fatal(err)
	}
	data, _ := l.place().dataDir("")
	for flag, want := range map[string]string{
		"--host": l.place().address(), "--data-root": filepath.Join(data, "docker"),
		"--cgroup-parent": l.place().cgroupParent(), "--exec-opt": "native.cgroupdriver=cgroupfs",
		"--config-file": daemonConfig, "--pidfile": "/run/docker.pid",
	} {
		if i := slices.Index(d.Args, flag); i < 0 || d.Args[i+1] != want {
			t.Errorf("dockerd's %s is not %s: %q", flag, want, d.Args)
		}
	}
	for _, want := range []string{" /run rw,nosuid,nodev", " /proc rw,nosuid,nodev,noexec"} {
		if !strings.Contains(d.Mounts, want) {
			t.Errorf("dockerd has no mount %s:\n%s", want, d.Mounts)
		}
	}
	if strings.Contains(d.Mounts, " shared:") || strings.Contains(d.Mounts, " master:") {
		t.Errorf("dockerd's mounts are not private:\n%s", d.Mounts)
	}
	if !strings.Contains(d.Mounts, " /etc rw") {
		t.Log("the kernel lets no overlay cover /etc")
	}
	if !slices.Contains(d.Env, "container=docker") || slices.ContainsFunc(d.Env, func(v string) bool { return strings.HasPrefix(v, "HTTPS_PROXY=") }) {
		t.Errorf("dockerd's environment is %q", d.Env)
	}
}

// What one start left must not be in the way of the next.
func TestStartFails(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "fails")
	_, err := Start(t.Context(), Config{})
	if err == nil || !strings.Contains(err.Error(), "Devices cgroup isn't mounted") || !strings.Contains(err.Error(), "dockerd") {
		t.Fatalf("the error does not say why: %v", err)
	}
	st, err := Inspect(Config{})
	if err != nil || st.Running || st.DataDir != "" || st.Log == "" {
		t.Errorf("%+v, %v", st, err)
	}
	if files, _ := filepath.Glob(l.place().file("*")); len(files) != 1 {
		t.Errorf("left: %v", files)
	}
	if _, err := Find(t.Context()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	l.set("mode", "")
	l.start()
}

func TestStartThatCannotRunContainers(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("refuse", "OCI runtime create failed: unable to apply caps: operation not permitted")
	_, err := Start(t.Context(), Config{})
	if !errors.As(err, new(*PrivilegedError)) || !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") || !strings.Contains(err.Error(), "log") {
		t.Errorf("%v", err)
	}
	if st, err := Inspect(Config{}); err != nil || st.Running {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestStartTakesTooLong(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "silent")
	_, err := Start(t.Context(), Config{Timeout: 2 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "does not answer after 2s") || !strings.Contains(err.Error(), "still loading containers") {
		t.Errorf("the error does not say why: %v", err)
	}
	if st, err := Inspect(Config{}); err != nil || st.Running {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestStartIsGivenUp(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "silent")
	ctx, cancel := context.WithCancel(t.Context())
	var began procfs.Process
	go func() {
		defer cancel()
		began = l.begun()
	}()
	if _, err := Start(ctx, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-ctx.Done()
	l.empty(began, false)
}

// started waits until an engine is being started, and returns its first process.
func (l *lab) begun() procfs.Process {
	var s *state
	eventually(l.t, "dockerd runs", func() bool {
		s, _ = l.place().load()
		return s != nil && l.told("daemon") != ""
	})
	return s.process()
}

func TestStarterIsKilled(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "silent")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starter := exec.Command(exe)
	starter.Env = append(os.Environ(), testRole+"=start")
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	began := l.begun()
	if err := starter.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()
	eventually(t, "the engine ends with the process that starts it", began.Over)
	l.empty(began, true) // an empty directory in the cache
	l.set("mode", "")
	l.start()
}

func TestStartsAtOnce(t *testing.T) {
	l := newLab(t).namespaces()
	l.start() // skips where it must
	if _, err := Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	engines := make([]Engine, 4)
	var all sync.WaitGroup
	for i := range engines {
		all.Go(func() {
			var err error
			if engines[i], err = Ensure(t.Context(), Config{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, e := range engines {
		if e.PID == 0 || e.PID != engines[0].PID {
			t.Errorf("engines %d and %d were started", e.PID, engines[0].PID)
		}
	}
}

func TestEngineCrashes(t *testing.T) {
	l := newLab(t).namespaces()
	e := l.start()
	t.Setenv("DOCKER_HOST", e.Host) // as in the shell of somebody who uses it
	if err := first(e).Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine ends", first(e).Over)
	if _, err := Find(t.Context()); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("%v", err)
	}
	st, err := Inspect(Config{})
	if err != nil || st.Running || st.Log == "" || st.DataDir == "" {
		t.Errorf("%+v, %v", st, err)
	}
	again, err := Ensure(t.Context(), Config{})
	if err != nil || again.PID == e.PID {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "stubborn")
	e := l.start()
	if stopped, err := stop(t.Context(), 100*time.Millisecond); err != nil || !stopped {
		t.Errorf("stopped: %v, %v", stopped, err)
	}
	l.empty(first(e), true)
}

// An engine that is stopped by Ctrl-C has exited when Stop returns.
func TestStopIsCutShort(t *testing.T) {
	l := newLab(t).namespaces()
	l.set("mode", "stubborn")
	e := l.start()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if stopped, err := Stop(ctx); err != nil || !stopped {
		t.Errorf("stopped: %v, %v", stopped, err)
	}
	l.empty(first(e), true)
}
