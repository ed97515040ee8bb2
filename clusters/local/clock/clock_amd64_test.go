package clock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// loadEnv makes a copy of the test binary a program that reads its clock: in as
// many threads as it says, all the time, and once more for each line it is sent.
const loadEnv = "HOLDFAST_CLOCK_LOAD"

// applyEnv makes a copy of the test binary a program that shifts the clock of the
// process it names, and gives it back the real one, until it is killed.
const applyEnv = "HOLDFAST_CLOCK_APPLY"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(loadEnv)); err == nil {
		tellTime(n)
	}
	if pid, err := strconv.Atoi(os.Getenv(applyEnv)); err == nil {
		for i := 1; ; i++ {
			if err := Apply(pid, Shift{Offset: time.Duration(i%2) * time.Hour}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// askCost is the line that asks for the cost of time.Now too.
const askCost = "cost"

// told is the program's answer.
type told struct {
	Wall      int64 // time.Now
	TimeOfDay int64 // gettimeofday
	Monotonic int64 // since it started
	Reads     uint64
	// Cost is that of one time.Now, in nanoseconds, if it was asked for.
	Cost float64
	// Wrong says what no clock may do, if it did.
	Wrong string
}

func tellTime(load int) {
	// Where only a process's ancestors may trace it, others may trace this one.
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	var reads atomic.Uint64
	var wrong atomic.Pointer[string]
	start := time.Now()
	for range load {
		go func() {
			runtime.LockOSThread()
			for last := start; ; {
				now := time.Now()
				if d := now.Sub(last); d < 0 || d > time.Minute {
					s := fmt.Sprintf("the monotonic clock went by %s", d)
					wrong.Store(&s)
				}
				if y := now.Year(); y < 2000 || y > 2100 {
					s := fmt.Sprintf("it was the year %d", y)
					wrong.Store(&s)
				}
				last = now
				if reads.Add(1)%64 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	if load > 4 {
		go func() { // threads come and go
			for {
				done := make(chan bool)
				go func() {
					runtime.LockOSThread() // for good: the thread ends with it
					_ = time.Now()
					close(done)
				}()
				<-done
			}
		}()
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var tv syscall.Timeval
		_ = syscall.Gettimeofday(&tv)
		now := time.Now()
		t := told{Wall: now.UnixNano(), TimeOfDay: tv.Nano(), Monotonic: int64(now.Sub(start)), Reads: reads.Load()}
		if in.Text() == askCost {
			const calls = 100_000
			for range calls {
				_ = time.Now()
			}
			t.Cost = float64(time.Since(now)) / calls
		}
		if w := wrong.Load(); w != nil {
			t.Wrong = *w
		}
		_ = out.Encode(t)
	}
	os.Exit(0)
}

// program is a running copy of tellTime.
type program struct {
	t   testing.TB
	pid int
	in  io.Writer
	out *json.Decoder
}

func needSupport(t testing.TB) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skipf("clocks cannot be shifted here: %v", err)
	}
}

func run(t testing.TB, load int, start func(*exec.Cmd) error) *program {
	t.Helper()
	needSupport(t)
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"clock"}, Env: append(os.Environ(), loadEnv+"="+strconv.Itoa(load)), Stderr: os.Stderr}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				break
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended: %v", err)
		}
	})
	return &program{t: t, pid: cmd.Process.Pid, in: in, out: json.NewDecoder(out)}
}

func plainly(cmd *exec.Cmd) error { return cmd.Start() }

// ask returns what the program says, and how far its clock is from ours at least
// and at most.
func (p *program) ask() (now told, low, high time.Duration) {
	p.t.Helper()
	before := time.Now()
	_, err := p.in.Write([]byte("\n"))
	if err == nil {
		err = p.out.Decode(&now)
	}
	if err != nil {
		p.t.Fatalf("the program does not answer: %v", err)
	}
	if now.Wrong != "" {
		p.t.Fatal(now.Wrong)
	}
	return now, time.Duration(now.Wall - time.Now().UnixNano()), time.Duration(now.Wall - before.UnixNano())
}

// wants checks that the program's clocks are shifted by s.
func (p *program) wants(s Shift) {
	p.t.Helper()
	earliest := s.At(time.Now())
	now, low, high := p.ask()
	latest := s.At(time.Now())
	if s.Drift < 0 {
		earliest, latest = latest, earliest
	}
	const slack = time.Millisecond // drift is computed by the program's clock
	if high < earliest-slack || low > latest+slack {
		p.t.Fatalf("shifted by %s to %s, want %s to %s", low, high, earliest, latest)
	}
	if d := time.Duration(now.Wall - now.TimeOfDay); d < -time.Microsecond || d > time.Second {
		p.t.Fatalf("time.Now is %s ahead of gettimeofday", d)
	}
	got, err := Read(p.pid)
	if err != nil {
		p.t.Fatal(err)
	}
	if got.Offset != s.Offset || math.Abs(got.Drift-s.Drift) > 1e-9 {
		p.t.Fatalf("its memory says %+v, want %+v", got, s)
	}
}

func apply(t testing.TB, pid int, s Shift) {
	t.Helper()
	if err := Apply(pid, s); err != nil {
		t.Fatal(err)
	}
}

func TestApply(t *testing.T) {
	p := run(t, 2, plainly)
	p.wants(Shift{})
	began := time.Now()
	first, _, _ := p.ask()
	for _, s := range []Shift{
		{Offset: time.Minute}, {Offset: -time.Minute}, {Offset: 10 * 365 * 24 * time.Hour}, {Offset: -10 * 365 * 24 * time.Hour},
		{Offset: time.Nanosecond}, {Drift: 0.001, Base: time.Now()}, {Drift: 0.5, Base: time.Now()}, {Drift: -0.5, Base: time.Now()},
		{Offset: time.Hour, Drift: -0.25, Base: time.Now().Add(-time.Minute)},
	} {
		apply(t, p.pid, s)
		p.wants(s)
		p.wants(s)
	}
	apply(t, p.pid, Shift{})
	p.wants(Shift{})
	last, _, _ := p.ask()
	if d := time.Duration(last.Monotonic - first.Monotonic); d < 0 || d > time.Since(began)+time.Millisecond {
		t.Errorf("the monotonic clock went by %s in %s", d, time.Since(began))
	}
	m, err := thisMachine()
	if err != nil {
		t.Fatal(err)
	}
	base, err := vdsoOf(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readMemory(p.pid, span{base, base + m.free})
	if err != nil || !bytes.Equal(b, m.bytes[:m.free]) {
		t.Errorf("the vDSO is not what it was: %v", err)
	}
}

func TestStart(t *testing.T) {
	s := Shift{Offset: -48 * time.Hour}
	p := run(t, 1, func(cmd *exec.Cmd) error { return Start(cmd, s) })
	p.wants(s)
	apply(t, p.pid, Shift{})
	p.wants(Shift{})
}

func TestStartOfNothing(t *testing.T) {
	needSupport(t)
	if err := Start(exec.Command("/no/such/program"), Shift{Offset: time.Hour}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestOtherPrograms checks the functions that Go programs do not call.
func TestOtherPrograms(t *testing.T) {
	needSupport(t)
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Skip("needs perl, which asks for the time with time()")
	}
	var out strings.Builder
	cmd := exec.Command(perl, "-e", `print time`)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = f
	before := time.Now()
	if err := Start(cmd, Shift{Offset: 500 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Seek(0, io.SeekStart)
	_, _ = io.Copy(&out, f)
	seconds, err := strconv.ParseInt(out.String(), 10, 64)
	got := time.Unix(seconds, 0).Sub(before) - 500*time.Hour
	if err != nil || got < -time.Second || got > time.Since(before) {
		t.Errorf("perl says %q, which is %s from what it should be", out.String(), got)
	}
}

// TestStress changes the clock of a program while its threads read it all the
// time, and threads come and go.
func TestStress(t *testing.T) {
	p := run(t, 8, plainly)
	changes := 400
	if testing.Short() {
		changes = 50
	}
	for i := range changes {
		var s Shift
		if i%2 == 0 {
			s = Shift{Offset: time.Duration(rand.Int64N(int64(time.Hour))), Drift: rand.Float64() - 0.5, Base: time.Now()}
		} else if i%3 == 0 {
			s.Offset = -time.Hour
		}
		apply(t, p.pid, s)
		p.wants(s)
	}
	if last, _, _ := p.ask(); last.Reads < 1000 {
		t.Errorf("only %d reads", last.Reads)
	}
}

// TestTracerKilled kills the process that shifts a clock at any moment: the program must
// continue undamaged, with one clock or the other.
func TestTracerKilled(t *testing.T) {
	p := run(t, 4, plainly)
	for range 40 {
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"clock"}, Env: append(os.Environ(), applyEnv+"="+strconv.Itoa(p.pid)), Stderr: os.Stderr}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rand.IntN(40)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.Exited() {
			t.Fatalf("it did not shift the clock until it was killed: %v", err)
		}
		if _, low, high := p.ask(); high < -time.Second || low > time.Second && high < time.Hour-time.Second || low > time.Hour+time.Second {
			t.Fatalf("shifted by %s to %s, which is neither nothing nor an hour", low, high)
		}
		apply(t, p.pid, Shift{})
		p.wants(Shift{})
	}
}

// TestAwkwardMoments shifts a frozen program, leaves it frozen, and one that ends.
func TestAwkwardMoments(t *testing.T) {
	p := run(t, 2, plainly)
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "state T", func() bool { return threadState(p.pid, p.pid) == 'T' })
	apply(t, p.pid, Shift{Offset: time.Hour})
	eventually(t, "state T again", func() bool { return threadState(p.pid, p.pid) == 'T' })
	if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.wants(Shift{Offset: time.Hour})

	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return !alive(threadState(cmd.Process.Pid, cmd.Process.Pid)) })
	if err := Apply(cmd.Process.Pid, Shift{Offset: time.Hour}); err == nil {
		t.Error("the clock of a dead process was shifted")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("its end was taken away from its parent: %v", err)
	}
}

var eventually = polltest.Until

func seedVDSO(f *testing.F) {
	if m, err := thisMachine(); err == nil {
		f.Add(m.bytes)
	}
}
