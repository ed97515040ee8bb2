package keeper

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/polltest"
)

var providers = []clusters.Provider{standIn{}}

// here has clusters of the test in directories of its own, and an engine that makes them
// in some way.
func here(t *testing.T, how string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hk") // short, as it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(engineVariable, t.TempDir())
	t.Setenv(behaviour, how)
}

func named(name string) *clusters.Cluster {
	c := clusters.Default()
	c.Metadata.Name = name
	return c
}

// up makes a cluster that ends with the test.
func up(t *testing.T, name string, o UpOptions) *Handle {
	t.Helper()
	h, err := Up(t.Context(), standIn{}, named(name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.down(context.Background(), DownOptions{}) })
	return h
}

// nothing makes sure that nothing of a cluster is there.
func nothing(t *testing.T, name string) {
	t.Helper()
	for _, path := range []string{mark(name), stateDir(name)} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("left behind: %s", path)
		}
	}
}

func TestUp(t *testing.T) {
	here(t, "")
	var said []string
	h := up(t, "a", UpOptions{Wait: true, Progress: func(s string) { said = append(said, s) }})
	if !slices.Equal(said, []string{"making a"}) {
		t.Errorf("%q", said)
	}
	if names, err := List(); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := Up(t.Context(), standIn{}, named("a"), UpOptions{}); !errors.Is(err, ErrRunning) || !errors.Is(err, clusters.ErrTaken) {
		t.Errorf("a second one: %v", err)
	}
	if h, err := Open(providers, ""); err != nil || h.Name != "a" {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := Open(providers, "b"); !errors.Is(err, ErrNoCluster) || !strings.Contains(err.Error(), "running: a") {
		t.Errorf("%v", err)
	}
	s, err := h.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "a" || !s.Ready || s.Network != "a wire" || s.Impairments != 3 || len(s.Hosts) != 2 || s.Hosts[0].Versions["etcd"] != "v3.9.9" || s.Leases[1].Holder != "one_1" || s.Kubeconfig != h.Kubeconfig() {
		t.Errorf("%+v", s)
	}

	// The kubeconfig leads through the forwarder to the first entrance.
	server, err := os.ReadFile(h.Kubeconfig())
	if err != nil || string(server) != s.Server {
		t.Fatalf("%s, %s, %v", server, s.Server, err)
	}
	resp, err := http.Get(strings.Replace(s.Server, "https", "http", 1) + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), `"path":"/hello"`) {
		t.Errorf("%s, %v", b, err)
	}

	if cmd, err := h.Shell(t.Context(), "one", "id"); err != nil || !slices.Equal(cmd.Args, []string{"echo", "one", "id"}) {
		t.Errorf("%v, %v", cmd, err)
	}
	if _, err := h.Shell(t.Context(), "two", "id"); err == nil || !strings.Contains(err.Error(), "powered off") {
		t.Errorf("%v", err)
	}
	if _, err := h.Shell(t.Context(), "six", "id"); !errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "one, two") {
		t.Errorf("%v", err)
	}
	if _, err := h.Inject(t.Context(), InjectRequest{Fault: "kill", On: "etcd/1", For: time.Minute}); !errors.As(err, new(*fault.Refused)) {
		t.Errorf("%v", err)
	}
	if healed, err := h.Heal(t.Context()); err != nil || len(healed) != 0 {
		t.Errorf("%v, %v", healed, err)
	}
	if ended, err := Down(t.Context(), providers, "", DownOptions{}); err != nil || ended != (Ended{Name: "a"}) {
		t.Errorf("%+v, %v", ended, err)
	}
	nothing(t, "a")
	if _, err := Down(t.Context(), providers, "", DownOptions{}); !errors.Is(err, ErrNoCluster) {
		t.Errorf("%v", err)
	}
	if _, err := Down(t.Context(), providers, "a", DownOptions{}); !errors.Is(err, ErrNoCluster) {
		t.Errorf("%v", err)
	}
}

// A name that no cluster can have could lead to files of others.
func TestDownRefusesOtherNames(t *testing.T) {
	here(t, "")
	others := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "others")
	if err := os.WriteFile(others, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..", ".", ".kind.engine", "a/b", "../..", strings.Repeat("a", 41)} {
		if _, err := Down(t.Context(), providers, name, DownOptions{}); !errors.As(err, new(*clusters.InputError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}

func TestUpLeavesNothingWhenItFails(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, test := range []struct {
		how   string
		port  int
		says  string
		taken bool
	}{
		{how: "fails", says: "there is no power"},
		{how: "taken", says: "by another", taken: true},
		{how: "panics", says: "the wire is cut"},
		{how: "killed", says: "its keeper died"},
		{port: busy.Addr().(*net.TCPAddr).Port, says: "another --port"},
	} {
		here(t, test.how)
		_, err := Up(t.Context(), standIn{}, named("a"), UpOptions{Port: test.port})
		if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, clusters.ErrTaken) != test.taken {
			t.Errorf("%v, want %q", err, test.says)
		}
		nothing(t, "a")
	}
}

func TestUpInterrupted(t *testing.T) {
	here(t, "hangs")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Up(ctx, standIn{}, named("a"), UpOptions{Progress: func(s string) {
		if s == "making a" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	nothing(t, "a")
}

// A cluster that runs and is not ready stays, to be looked into.
func TestUpNotReady(t *testing.T) {
	here(t, "unready")
	_, err := Up(t.Context(), standIn{}, named("a"), UpOptions{Wait: true})
	if err == nil || !strings.Contains(err.Error(), "no member leads") || !strings.Contains(err.Error(), "keeps running") {
		t.Error(err)
	}
	if ended, err := Down(t.Context(), providers, "a", DownOptions{}); err != nil || ended != (Ended{Name: "a"}) {
		t.Errorf("%+v, %v", ended, err)
	}
	nothing(t, "a")
}

// kill kills a process with SIGKILL and returns when the cluster has no keeper any more.
func kill(t *testing.T, h *Handle, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "nothing keeps it", func() bool { return !running(h.dir) })
}

// TestKillsItsOwn: the PID of a keeper that has exited may be that of another cluster's.
func TestKillsItsOwn(t *testing.T) {
	for dir, ends := range map[string]bool{"/one": true, "/other": false} {
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{role, keeps, dir}, Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(cmd.Dir, keeps), []byte("echo; while :; do sleep 1; done\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1)) // its arguments are in place
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Handle{Name: "one", dir: "/one"}).kill(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // SIGKILL comes first
		_ = cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); (status.Signal() == syscall.SIGKILL) != ends {
			t.Errorf("the keeper of %s: %s", dir, cmd.ProcessState)
		}
	}
}

// child returns the server.
func child(t *testing.T, keeper int) int {
	t.Helper()
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(keeper) + "/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		if words := strings.Fields(string(b)); len(words) > 0 {
			pid, err := strconv.Atoi(words[0])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Skip("this kernel does not list children")
	return 0
}

func TestKeeperKilled(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	pid, err := h.PID()
	if err != nil {
		t.Fatal(err)
	}
	kill(t, h, pid)
	if _, err := os.Stat(mark("a")); err == nil {
		t.Error("its cluster goes on")
	}
	// And the next one of the name is none the worse.
	h = up(t, "a", UpOptions{Wait: true})
	if _, err := h.down(t.Context(), DownOptions{}); err != nil {
		t.Error(err)
	}
	nothing(t, "a")
}

// A cluster whose state was removed, as at a user's last logout, does not run on unseen.
func TestStateRemoved(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	keeper, err := h.PID()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for _, err := os.Stat(mark("a")); err == nil; _, err = os.Stat(mark("a")) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(keeper, syscall.SIGKILL)
			t.Fatal("it runs after 20 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	nothing(t, "a")
}

// What is left where both processes were killed goes with the next Down.
func TestAllKilled(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	keeper, err := h.PID()
	if err != nil {
		t.Fatal(err)
	}
	server := child(t, keeper)
	// A keeper that is stopped cannot see to anything.
	if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kill(t, h, keeper)
	if _, err := os.Stat(mark("a")); err != nil {
		t.Fatalf("its cluster is gone: %v", err)
	}
	if _, err := Open(providers, "a"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("%v", err)
	}
	if ended, err := Down(t.Context(), providers, "", DownOptions{}); err != nil || ended != (Ended{Name: "a"}) {
		t.Errorf("%+v, %v", ended, err)
	}
	nothing(t, "a")
}

// A cluster that was taken over stays, with nothing of ours in it, unless it is to go.
func TestAttach(t *testing.T) {
	here(t, "")
	attach := func() *Handle {
		t.Helper()
		if err := os.WriteFile(mark("a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return up(t, "a", UpOptions{Wait: true, Attach: true})
	}
	is := func(when string, agents, cluster bool) {
		t.Helper()
		for name, want := range map[string]bool{"a" + agentsMark: agents, "a": cluster} {
			if _, err := os.Stat(mark(name)); (err == nil) != want {
				t.Errorf("%s: %s: %v, want there: %t", when, name, err, want)
			}
		}
	}
	attach()
	is("taken over", true, true)
	if ended, err := Down(t.Context(), providers, "a", DownOptions{}); err != nil || ended != (Ended{"a", true}) {
		t.Errorf("%+v, %v", ended, err)
	}
	is("let go", false, true)
	attach()
	if ended, err := Down(t.Context(), providers, "a", DownOptions{Delete: true}); err != nil || ended != (Ended{"a", false}) {
		t.Errorf("%+v, %v", ended, err)
	}
	is("deleted", false, false)

	h := attach()
	keeper, err := h.PID()
	if err != nil {
		t.Fatal(err)
	}
	server := child(t, keeper)
	for _, pid := range []int{keeper, server} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kill(t, h, keeper)
	is("killed", true, true)
	if _, err := Up(t.Context(), standIn{}, named("a"), UpOptions{}); !errors.Is(err, clusters.ErrTaken) || !strings.Contains(err.Error(), "holdfast down --name a") {
		t.Errorf("%v", err)
	}
	if ended, err := Down(t.Context(), providers, "", DownOptions{}); err != nil || ended != (Ended{"a", true}) {
		t.Errorf("%+v, %v", ended, err)
	}
	is("let go after that", false, true)
}

// The server upgrades nodes, reports its progress, and stops when the client has gone.
func TestUpgrade(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	var said []string
	p := clusters.Preparation{Progress: func(s string) { said = append(said, s) }}
	if _, err := h.Change(t.Context(), ChangeRequest{Version: "v2"}, p); err != nil {
		t.Fatal(err)
	}
	if want := []string{"getting v2", "one becomes v2", "two becomes v2"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
	said = nil
	if _, err := h.Change(t.Context(), ChangeRequest{Node: "unknown", Version: "v2"}, p); !errors.As(err, new(*fault.Refused)) || !strings.Contains(err.Error(), "no node unknown") || len(said) > 0 {
		t.Errorf("%v after %q", err, said)
	}
	if _, err := h.Change(t.Context(), ChangeRequest{Version: "v1"}, p); !errors.As(err, new(*fault.Refused)) || !strings.Contains(err.Error(), "one is newer") {
		t.Error(err)
	}
	if _, err := h.Change(t.Context(), ChangeRequest{Node: "two", Version: "broken"}, p); err == nil || errors.As(err, new(*fault.Refused)) ||
		!strings.HasPrefix(err.Error(), "two is broken now; no step was complete; run the same command again to finish, or ") {
		t.Error(err)
	}
	steps, err := h.Change(t.Context(), ChangeRequest{Version: "stepwise"}, p)
	if len(steps) != 2 || err == nil || !strings.HasPrefix(err.Error(), `step "restart kube-scheduler in stepwise" on two: it is not ready; the last complete step, number 2, was "restart kube-apiserver in stepwise" on two; run`) {
		t.Errorf("%+v, %v", steps, err)
	}
	slow := mark("a-slow")
	if err := os.WriteFile(slow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.Progress = func(s string) {
		if strings.HasPrefix(s, "one: stop: it exited") {
			other, done := context.WithTimeout(t.Context(), 20*time.Second)
			defer done()
			const waits = "waiting for another change of the nodes to finish"
			var told []string
			_, err := h.Change(other, ChangeRequest{Version: "v2"}, clusters.Preparation{Progress: func(s string) {
				if told = append(told, s); s == waits {
					done()
				}
			}})
			if err == nil || !slices.Contains(told, waits) {
				t.Errorf("%v after %q", err, told)
			}
			cancel()
		}
	}
	if _, err := h.Change(ctx, ChangeRequest{Version: "slow"}, p); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), `the last complete step, number 1, was "stop" on one, and the next one may still complete; run the same command again to finish`) {
		t.Error(err)
	}
	polltest.Until(t, "the upgrade stops", func() bool {
		_, err := os.Stat(slow)
		return err != nil
	})
	h.provider = struct{ clusters.Provider }{standIn{}}
	if _, err := h.Change(t.Context(), ChangeRequest{Version: "v2"}, p); !errors.As(err, new(*fault.Refused)) || !strings.Contains(err.Error(), "the provider stand-in cannot") {
		t.Error(err)
	}
}
