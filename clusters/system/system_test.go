package system

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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

func TestSysctls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to have a network of its own without a process of its own")
	}
	const name, none = "net.ipv4.tcp_retries2", "net.ipv4.holdfast_none"
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		err := SetSysctls(map[string]string{name: "7", none: "1"})
		if got, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_retries2"); err != nil || strings.TrimSpace(string(got)) != "7" {
			t.Errorf("%q, %v", got, err)
		}
		if err := SetSysctls(map[string]string{name: "many"}); err == nil || !strings.Contains(err.Error(), "sysctl net.ipv4.tcp_retries2=many") {
			t.Errorf("no number: %v", err)
		}
	}()
	<-done
	if missing := MissingSysctls(map[string]string{name: "7", none: "1"}); !slices.Equal(missing, []string{none}) {
		t.Errorf("missing %q", missing)
	}
}

func TestExplainNamespaces(t *testing.T) {
	err := ExplainNamespaces(&os.PathError{Op: "fork/exec", Path: "x", Err: syscall.EPERM})
	if !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "max_user_namespaces") {
		t.Errorf("error does not say what to do: %v", err)
	}
	if err := ExplainNamespaces(nil); err != nil {
		t.Errorf("explained no error as %v", err)
	}
}
