package local

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// TestStopTree stops a process with its descendants, and continues all but the one that
// was stopped before.
func TestStopTree(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `sleep 60 & echo $!; sh -c 'sleep 60 & echo $!; wait' & wait`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	var sleeps []int
	for lines := bufio.NewScanner(out); len(sleeps) < 2 && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		sleeps = append(sleeps, pid)
	}
	state := func(pid int) string {
		st, _ := procfs.ReadStat("/proc", pid)
		return st.State
	}
	stopped := func(want bool, pids ...int) {
		t.Helper()
		for _, pid := range pids {
			eventually(t, 10*time.Second, "process "+strconv.Itoa(pid)+" follows", func() bool { return (state(pid) == "T") == want })
		}
	}
	if err := syscall.Kill(sleeps[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped(true, sleeps[0])
	all, err := stopTree("/proc", cmd.Process.Pid)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	stopped(true, cmd.Process.Pid, sleeps[0], sleeps[1])
	if err := continueAll(all); err != nil {
		t.Fatal(err)
	}
	stopped(false, cmd.Process.Pid, sleeps[1])
	stopped(true, sleeps[0])
	if st := state(os.Getpid()); st == "T" {
		t.Error("the one who stops is stopped")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	if _, err := stopTree("/proc", cmd.Process.Pid); err == nil {
		t.Error("a process that is gone is stopped")
	}
	if err := continueAll(all); err != nil {
		t.Error(err)
	}
}
