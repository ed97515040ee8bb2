package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeProc is a /proc with one process.
func fakeProc(t *testing.T, boot string, pid int, processState string, ticks int) string {
	t.Helper()
	proc := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", boot+"\n")
	write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (a) b) %s 1%s %d 0", pid, processState, strings.Repeat(" 0", 17), ticks))
	return proc
}

func TestStateRunning(t *testing.T) {
	for _, test := range []struct {
		name, boot, process string
		pid, ticks          int
		want                bool
	}{
		{"it runs", "boot-1", "S", 17, 4711, true},
		{"the machine was booted again", "boot-2", "S", 17, 4711, false},
		{"another process has its number", "boot-1", "S", 17, 4712, false},
		{"nobody has waited for it", "boot-1", "Z", 17, 4711, false},
		{"it is gone", "boot-1", "S", 18, 4711, false},
	} {
		p := place{dir: t.TempDir(), proc: fakeProc(t, test.boot, test.pid, test.process, test.ticks)}
		s := &state{PID: 17, StartTicks: 4711, BootID: "boot-1", Ready: true, place: p}
		if got := s.running(); got != test.want {
			t.Errorf("%s: running is %v", test.name, got)
		}
	}
}

func TestStateIsKept(t *testing.T) {
	p := place{dir: t.TempDir(), proc: "/proc"}
	if s, err := p.load(); s != nil || err != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	want := state{PID: 17, StartTicks: 4711, BootID: p.bootID(), Ready: true, Started: time.Now().Truncate(time.Second).UTC(),
		DataDir: "/data", Warning: "slow", place: p}
	if err := want.save(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.load(); err != nil || *got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := os.WriteFile(p.file(stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "holdfast kind engine stop") {
		t.Errorf("%v", err)
	}
}

func TestPlace(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/0")
	a := newPlace()
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	b := newPlace()
	if a.address() != "unix:///run/user/0/holdfast/.kind.engine/docker.sock" {
		t.Errorf("the address is %s", a.address())
	}
	dataA, errA := a.dataDir("/cache")
	dataB, errB := b.dataDir("/cache")
	if errA != nil || errB != nil || dataA == dataB || a.cgroupParent() == b.cgroupParent() {
		t.Errorf("two engines would share %s or %s", dataA, a.cgroupParent())
	}
	t.Setenv("XDG_RUNTIME_DIR", "/"+strings.Repeat("x", 90))
	if err := newPlace().make(); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("a path that is too long: %v", err)
	}
}

func TestLogTail(t *testing.T) {
	p := place{dir: t.TempDir()}
	if tail := p.logTail(); tail != "" {
		t.Errorf("without a log: %q", tail)
	}
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintln(&lines, "line", i)
	}
	if err := os.WriteFile(p.file(logFile), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := p.logTail()
	if !strings.HasPrefix(tail, "  line 85\n") || !strings.HasSuffix(tail, "\n  line 99") {
		t.Errorf("%q", tail)
	}
}
