package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
)

// clusterTests enables the tests that start clusters; `make test` sets it once the binaries are
// fetched.
const clusterTests = "HOLDFAST_TEST_CLUSTERS"

// commandLine runs holdfast with its own directory for running clusters, or with the user's if
// run is empty.
type commandLine struct {
	t   testing.TB
	run string
}

func newCommandLine(t testing.TB) commandLine {
	if os.Getenv(clusterTests) == "" {
		t.Skipf("starts clusters: set %s=1, after `holdfast fetch kubernetes default kwok default`", clusterTests)
	}
	// Short, since it holds sockets.
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return commandLine{t, dir}
}

func (c commandLine) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	env := os.Environ()
	if c.run != "" {
		env = append(env, "XDG_RUNTIME_DIR="+c.run)
	}
	return &exec.Cmd{Path: exe, Args: append([]string{"holdfast"}, args...), Env: env}
}

// do runs a command, checks its exit code and returns what it printed.
func (c commandLine) do(code int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	stdout, stderr, got := c.execute(args...)
	if got != code {
		c.t.Fatalf("holdfast %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

// try runs a command and returns all its output and its exit code.
func (c commandLine) try(args ...string) (output string, code int) {
	c.t.Helper()
	stdout, stderr, code := c.execute(args...)
	return stdout + stderr, code
}

func (c commandLine) execute(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	var out, errOut bytes.Buffer
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		c.t.Fatal(err)
	}
	if i := slices.Index(args, "json"); i > 0 && args[i-1] == "-o" && out.Len() > 0 {
		cmd, _, err := newRootCommand().Find(args)
		if err == nil {
			err = followsSchema(strings.TrimPrefix(cmd.CommandPath(), "holdfast "), out.String())
		}
		if err != nil {
			c.t.Errorf("holdfast %s: %v", strings.Join(args, " "), err)
		}
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

func (c commandLine) status() keeper.Status {
	c.t.Helper()
	out, _ := c.do(exitPass, "status", "-o", "json")
	var s keeper.Status
	if err := reports.ReadJSON([]byte(out), &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// up creates a cluster that is deleted at the end of the test.
func (c commandLine) up(args ...string) {
	c.t.Helper()
	c.t.Cleanup(func() { _ = c.command("down").Run() })
	c.do(exitPass, append([]string{"up", "--wait"}, args...)...)
}

func (c commandLine) contains(text string, words ...string) {
	c.t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			c.t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func TestClusterCommands(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	out, errOut := c.do(exitPass, "down")
	c.contains(out+errOut, "no cluster is running: nothing to delete")

	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	_, errOut = c.do(exitInconclusive, "up", "--port", port)
	c.contains(errOut, "address already in use", "--port")

	c.up("--nodes", "1", "--name", "one", "--data", "disk")
	dir := ""
	for _, h := range c.status().Hosts {
		if h.Name == "node-1" {
			dir = h.Dir
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err != nil {
		t.Errorf("the data is not on disk: %v", err)
	}
	_, errOut = c.do(exitUsage, "up", "--nodes", "1", "--name", "one")
	c.contains(errOut, "is already running", "holdfast down --name one")
	out, _ = c.do(exitPass, "kubectl", "--", "get", "nodes")
	c.contains(out, "worker-1", "Ready")
	out, _ = c.do(exitPass, "logs", "node-1", "etcd")
	c.contains(out, "became leader")
	_, errOut = c.do(exitUsage, "logs", "node-1", "nothing")
	c.contains(errOut, "node-1 kube-apiserver")
	_, errOut = c.do(exitUsage, "shell", "node-7", "--", "true")
	c.contains(errOut, "node-7", "node-1")
	out, _ = c.do(exitPass, "shell", "node-1", "--", "etcdctl", "endpoint", "health")
	c.contains(out, ":2379 is healthy")
	out, _ = c.do(exitPass, "kubeconfig", "-o", "json")
	c.contains(out, `"kubeconfig": "/`)
	watched := c.command("status", "--watch", "-o", "json")
	lines, err := watched.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watched.Start(); err != nil {
		t.Fatal(err)
	}
	var first keeper.Status
	var text json.RawMessage
	err = json.NewDecoder(lines).Decode(&text)
	if err == nil {
		err = reports.ReadJSON(text, &first)
	}
	if err != nil || first.Name == "" {
		t.Errorf("the status that is watched: %v, %+v", err, first)
	}
	_ = watched.Process.Signal(os.Interrupt)
	if err := watched.Wait(); err != nil {
		t.Errorf("status --watch after an interrupt: %v", err)
	}
	out, _ = c.do(exitPass, "shell", "node-1", "--", "hostname")
	c.contains(out, "node-1")

	for _, bad := range []struct {
		args  string
		words []string
	}{
		{"inject nothing --on etcd/1", []string{"is not a fault", "kill"}},
		{"inject kill", []string{"--on is missing"}},
		{"inject kill --on etcd/4", []string{"node 4 does not exist"}},
		{"inject kill --on pod/4", []string{"not a kind of target"}},
		{"inject kill --on etcd/1 --for -3s", []string{"above zero"}},
		{"inject kill --on etcd/1 fast", []string{"NAME=VALUE"}},
		{"inject kill --on etcd/1 speed=3", []string{"unknown", "restart"}},
		{"inject kill --on etcd/1 restart=3", []string{"true or false"}},
		{"inject isolate-etcd --on etcd/1", []string{"no peers"}},
		{"heal kill-9", []string{"no injection \"kill-9\""}},
	} {
		_, errOut := c.do(exitUsage, strings.Fields(bad.args)...)
		c.contains(errOut, bad.words...)
	}
	_, errOut = c.do(exitPass, "heal")
	c.contains(errOut, "no fault is active on cluster one")

	out, _ = c.do(exitPass, "inject", "freeze", "--on", "scheduler/1")
	c.contains(out, "freeze-1 is active on kube-scheduler on node-1")
	out, _ = c.do(exitInconclusive, "inject", "freeze", "--on", "scheduler/1")
	c.contains(out, "no effect", "already frozen")
	out, _ = c.do(exitPass, "inject", "kill", "--on", "kcm/active")
	c.contains(out, "kill-1 is active")
	out, _ = c.do(exitPass, "status")
	c.contains(out, "freeze-1", "kill-1", "held down", "frozen")
	_, errOut = c.do(exitUsage, "heal")
	c.contains(errOut, "several faults are active", "freeze-1, kill-1")
	out, _ = c.do(exitPass, "heal", "freeze-1")
	c.contains(out, "freeze-1 is healed")
	out, _ = c.do(exitPass, "heal")
	c.contains(out, "kill-1 is healed")
	if s := c.status(); len(s.Faults) != 0 {
		t.Errorf("active after healing: %+v", s.Faults)
	}
	out, _ = c.do(exitPass, "down")
	c.contains(out, "cluster one deleted")
	if left, _ := os.ReadDir(filepath.Join(c.run, "holdfast")); slices.ContainsFunc(left, os.DirEntry.IsDir) {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left behind: %s", dir)
	}
}

// TestClusterRunKilled kills a run with SIGKILL at random moments. Nothing of the run is left,
// and its record can be judged.
func TestClusterRunKilled(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	moments := 3
	for range moments {
		out := t.TempDir()
		before := c.leftovers()
		cmd := c.command("run", "--scenario", "etcd-leader-killed", "--out", filepath.Join(out, "results"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		moment := time.Second + rand.N(19*time.Second)
		time.Sleep(moment)
		if len(c.leftovers()) == len(before) {
			t.Errorf("the processes of a run are not seen while it runs")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.leavesOnly(before, "killed after "+moment.String())
		records, _ := filepath.Glob(filepath.Join(out, "results", "record", "*", record.FileName))
		if len(records) == 0 {
			t.Logf("killed after %s, before anything was recorded", moment)
			continue
		}
		said, _ := c.do(exitInconclusive, "judge", filepath.Join(out, "results"))
		c.contains(said, "inconclusive")
		t.Logf("killed after %s:\n%s", moment, said)
	}
}

// leavesOnly checks that leftovers soon returns the same list as before.
func (c commandLine) leavesOnly(before []string, what string) {
	c.t.Helper()
	var after []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if after = c.leftovers(); slices.Equal(before, after) {
			return
		}
	}
	c.t.Errorf("%s: there was\n%s\nand there is\n%s", what, strings.Join(before, "\n"), strings.Join(after, "\n"))
}

// leftovers lists what a run could leave on the machine: processes with the directory of this
// command line in their environment, mounts and network devices.
func (c commandLine) leftovers() []string {
	c.t.Helper()
	var found []string
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range environments {
		if env, _ := os.ReadFile(p); bytes.Contains(env, []byte(c.run)) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "comm"))
			found = append(found, fmt.Sprintf("%s: %s", filepath.Dir(p), name))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		c.t.Fatal(err)
	}
	devices, err := net.Interfaces()
	if err != nil {
		c.t.Fatal(err)
	}
	found = append(found, string(mounts))
	for _, d := range devices {
		found = append(found, d.Name)
	}
	return found
}
