package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/suites/run"
)

const tinyScenario = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: NAME}
spec:
  cluster: CLUSTER
  timeline:
  - action: {name: ready}
  - wait: 12s
  requirements:
  - {id: HA-TOP-002, judge: control-plane-complete}
`

// TestClustersSideBySide runs two tiny scenarios that ask for different clusters.
func TestClustersSideBySide(t *testing.T) {
	c := newCommandLine(t)
	dir := t.TempDir()
	var files []string
	for name, cluster := range map[string]string{"plain": "{}", "verbose": `{extraArgs: {kube-scheduler: {v: "1"}}}`} {
		file := filepath.Join(dir, name+".yaml")
		files = append(files, "-f", file)
		text := strings.NewReplacer("NAME", name, "CLUSTER", cluster).Replace(tinyScenario)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	// Inconclusive is fine on a busy machine; a failure is not.
	if text, code := c.try(slices.Concat([]string{"run", "--parallel", "2", "--nodes", "1", "--data", "disk", "--out", out}, files)...); code != exitPass && code != exitInconclusive {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	results, err := reports.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(results.Run.Times) != 2 || results.Run.Problem != "" {
		t.Fatalf("%+v", results.Run)
	}
	if _, err := os.Stat(filepath.Join(out, run.OverloadedDir)); err == nil {
		t.Skip("the machine is too busy to run two clusters side by side: one was repeated")
	}
	if len(results.Run.Clusters) != 2 {
		t.Fatalf("%+v", results.Run)
	}
	for _, one := range results.Run.Clusters {
		if len(one.Nodes) != 1 || one.Made <= 0 || one.Took <= one.Made || one.Settings["L"] != 15*time.Second {
			t.Errorf("%+v", one)
		}
		for _, log := range []string{one.Name + ".log", one.Name + "/node-1/etcd.log"} {
			if info, err := os.Stat(filepath.Join(out, "logs", log)); err != nil || info.Size() == 0 {
				t.Errorf("log %s: %v", log, err)
			}
		}
	}
	// Both ran at the same time.
	var began, ended [2]time.Time
	for i, name := range []string{"plain", "verbose"} {
		run, err := record.Read(record.Dir(out, name))
		if err != nil {
			t.Fatal(err)
		}
		began[i], ended[i] = run.Meta.Started, run.Meta.Started.Add(time.Duration(run.EndAt))
	}
	if began[0].After(ended[1]) || began[1].After(ended[0]) {
		t.Errorf("from %v to %v", began, ended)
	}
	c.do(exitPass, "report", out)
	if left, err := filepath.Glob(filepath.Join(out, "data*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestClusterRunInterrupted interrupts runs as a user or a closing terminal does: the fault is
// healed, the report says that the run was interrupted, and nothing is left.
func TestClusterRunInterrupted(t *testing.T) {
	t.Parallel()
	passHangups()
	c := newCommandLine(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "long.yaml")
	text := strings.NewReplacer("NAME", "long", "CLUSTER", "{}", "- wait: 12s", `- inject: {fault: freeze, target: scheduler/1, as: freeze}
  - wait: 2m
  - heal: freeze`).Replace(tinyScenario)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		before := c.leftovers()
		out := filepath.Join(dir, sig.String())
		cmd := c.command("run", "--nodes", "1", "--out", out, "-f", file)
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "freeze hit ") {
				_ = cmd.Process.Signal(sig)
			}
		}
		_ = cmd.Wait()
		all := stdout.String() + said.String()
		if cmd.ProcessState.ExitCode() != exitInconclusive || strings.Contains(all, "overloaded") {
			t.Errorf("%v: exit code %d:\n%s", sig, cmd.ProcessState.ExitCode(), all)
		}
		c.contains(stdout.String(), "interrupted")
		c.contains(said.String(), "freeze is healed")
		c.leavesOnly(before, sig.String())
		results, err := reports.Load(out)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(results.Run.Problem, "interrupted") {
			t.Errorf("%v: %+v", sig, results.Run)
		}
	}
}

// TestClusterThatCannotBeMade checks that a cluster that cannot be created costs the verdicts on
// its scenarios within seconds, and that the report says why.
func TestClusterThatCannotBeMade(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	file := filepath.Join(t.TempDir(), "refused.yaml")
	text := strings.NewReplacer("NAME", "refused", "CLUSTER", `{extraArgs: {kube-apiserver: {no-such-flag: x}}}`).Replace(tinyScenario)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	began := time.Now()
	stdout, stderr := c.do(exitInconclusive, "run", "--nodes", "1", "--out", out, "-f", file)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v to see that the API server does not start", took)
	}
	c.contains(stdout, "scenario refused was not run: failed to create cluster holdfast: kube-apiserver on node-1 has exited")
	c.contains(stdout, "unknown flag: --no-such-flag")
	c.contains(stderr, "the run had a problem: cluster-1: failed to create cluster holdfast")
	if _, err := reports.Load(out); err != nil {
		t.Error(err)
	}
}
