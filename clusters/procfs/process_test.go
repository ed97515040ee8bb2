package procfs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// firstThreadEnds in the environment turns a test's process into one whose first thread has
// exited, which reports that and continues.
const firstThreadEnds = "HOLDFAST_TEST_FIRST_THREAD_ENDS"

func init() {
	if os.Getenv(firstThreadEnds) != "" {
		runtime.LockOSThread() // init runs in the first thread
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(firstThreadEnds) == "" {
		os.Exit(m.Run())
	}
	runtime.GOMAXPROCS(2) // the thread that ends keeps its share
	go func() {
		for st := (Stat{}); st.State != "Z"; time.Sleep(time.Millisecond) {
			st, _ = ReadStat("/proc", os.Getpid())
		}
		os.Stdout.WriteString("ended\n")
		select {}
	}()
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// A process whose first thread has exited before others has not exited.
func TestThreadsThatAreLeft(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), firstThreadEnds+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ended\n" {
		t.Fatalf("%q, %v", said, err)
	}
	st, err := ReadStat("/proc", cmd.Process.Pid)
	p := Process{Proc: "/proc", PID: cmd.Process.Pid, Stat: st}
	if err != nil || st.State != "Z" || p.Over() {
		t.Errorf("%+v is over: %v, %v", st, p.Over(), err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "the process is over", p.Over)
	_ = cmd.Wait()
}

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
	// A process that has not been reaped has exited too, whatever its name.
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
