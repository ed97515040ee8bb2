package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Roles of the test's own program.
const (
	roleReplacing = "holdfast-test-replacing"
	roleNaming    = "holdfast-test-naming"
)

func TestMain(m *testing.M) {
	RunRole(map[string]func([]string) error{roleReplacing: replaceMyself, roleNaming: writeName})
	os.Exit(m.Run())
}

// replaceMyself replaces this program's file, as go build does, and starts a copy of it with Detach and
// one with Again. Each writes its name to a file.
func replaceMyself(args []string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte("another build"), 0o700); err != nil {
		return err
	}
	cmd := &exec.Cmd{Args: []string{roleNaming, args[0]}}
	exited, err := Detach(cmd)
	if err != nil {
		return err
	}
	if <-exited; !cmd.ProcessState.Success() {
		return fmt.Errorf("the copy: %s", cmd.ProcessState)
	}
	os.Args[0] = roleNaming
	return Again(context.Background(), args[1]).Run()
}

func writeName(args []string) error {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], name, 0o600)
}

// TestSelf: a copy of a program is the same build, also if the program's file was replaced, and the
// kernel knows it under the name of its role.
func TestSelf(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(dir, "detached"), filepath.Join(dir, "again")}
	cmd := exec.CommandContext(t.Context(), program, names...)
	cmd.Args[0] = roleReplacing
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, file := range names {
		if name, err := os.ReadFile(file); err != nil || string(name) != roleNaming[:15]+"\n" {
			t.Errorf("%s: %q, %v", filepath.Base(file), name, err)
		}
	}
}
