package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestRunWithoutReader: a run whose output is read by a program that exits, as tee does on Ctrl-C, still
// writes its results.
func TestRunWithoutReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	dir := t.TempDir()
	out := filepath.Join(dir, "results")
	// It needs no cluster, since the scenario does not apply to one node.
	cmd := exec.Command("holdfast", "run", "--scenario", "apiserver-drained", "--nodes", "1", "--out", out)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.WaitDelay = w, w, append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir), time.Minute
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "results.json")); err != nil {
		t.Errorf("%v: %v", cmd.ProcessState, err)
	}
}
