package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestProcess(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	st, err := ReadStat("/proc", cmd.Process.Pid)
	if err != nil || st.Parent != os.Getpid() || st.StartTicks == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	p := Process{Proc: "/proc", PID: cmd.Process.Pid, Stat: st}
	later := p
	later.StartTicks++
	if !later.Over() || later.Signal(syscall.SIGKILL) != os.ErrProcessDone {
		t.Error("another process of the same number is taken for this one")
	}
	if p.Over() {
		t.Error("it is taken to have ended")
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if !p.Over() || p.Signal(syscall.SIGKILL) != os.ErrProcessDone {
		t.Error("it is taken to run")
	}
	// One that nobody has waited for has ended too, whatever its name.
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "7 (a) b) Z 1" + strings.Repeat(" 0", 17) + " 42 0"
	if err := os.WriteFile(filepath.Join(proc, "7/stat"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if st, err := ReadStat(proc, 7); err != nil || st.State != "Z" || st.Parent != 1 || st.StartTicks != 42 {
		t.Errorf("%+v, %v", st, err)
	}
	if p := (Process{Proc: proc, PID: 7, Stat: Stat{StartTicks: 42}}); !p.Over() {
		t.Error("a zombie is taken to run")
	}
}
