package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateRoot(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	if got := StateRoot(); got != filepath.Join(run, "holdfast") {
		t.Errorf("the directory of state is %s", got)
	}
	if err := MakeStateRoot(); err != nil {
		t.Fatal(err)
	}
	if err := MakeStateRoot(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := os.Chmod(StateRoot(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := MakeStateRoot(); err == nil || !strings.Contains(err.Error(), "mode 0700") {
		t.Errorf("others may read it: %v", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if got := StateRoot(); !strings.HasPrefix(got, "/tmp/holdfast-") {
		t.Errorf("without XDG_RUNTIME_DIR it is %s", got)
	}
}

func TestLookProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := LookProgram("holdfast-no-such-program"); err == nil {
		t.Errorf("found %s", path)
	}
	file := filepath.Join(dir, "holdfast-no-such-program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := LookProgram("holdfast-no-such-program"); err != nil || path != file {
		t.Errorf("found %s, %v", path, err)
	}
}
