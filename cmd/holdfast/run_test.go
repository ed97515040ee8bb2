package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckResultsDir: a results directory that cannot be created is refused before any work.
func TestCheckResultsDir(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"mine": 0o755, "theirs": 0o555, "used/before": 0o755} {
		if err := os.MkdirAll(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"mine": exitPass, "mine/a/b": exitPass, "theirs": exitUsage, "theirs/a/b": exitUsage, "used": exitUsage, "file": exitUsage, "file/a": exitUsage} {
		if strings.HasPrefix(name, "theirs") && os.Geteuid() == 0 {
			continue // root may write there
		}
		if err := checkResultsDir(filepath.Join(dir, name)); exitCode(err) != want {
			t.Errorf("%s: %v, want exit code %d", name, err, want)
		}
	}
}
