package local

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
)

// Back-off of restarts: the first one is immediate, as the kubelet's is; then
// the delay doubles up to the longest one, and is forgotten once a process has
// run for a while.
const (
	backOffFirst = time.Second
	backOffMax   = 30 * time.Second
	backOffReset = time.Minute
)

// supervisor keeps one component running.
type supervisor struct {
	a    *agent
	spec componentSpec // Path and Args are guarded by mu; see renew

	wake chan struct{} // a hold was changed, or the back-off is to end

	// mu is held through a start, and while a hold is set: so a hold finds
	// either a process to end or one that will not be started.
	mu       sync.Mutex
	proc     *os.Process   // nil where nothing runs
	gone     chan struct{} // closed when proc has ended
	thawing  expiry.Timers[framework.Component]
	crashing *time.Timer
	expiring *time.Timer
}

func newSupervisor(a *agent, spec componentSpec) *supervisor {
	return &supervisor{a: a, spec: spec, wake: make(chan struct{}, 1)}
}

// run starts the component whenever it is down and not held down; one that was
// adopted is down when its process has ended.
func (s *supervisor) run(adopted bool) {
	delay := time.Duration(0)
	if adopted {
		s.awaitAdopted()
	} else if s.a.saved(s.spec.Name).Started.IsZero() {
		s.awaitOther()
	}
	for {
		if s.awaitHold() {
			delay = 0 // a hold is no failure to back off from
		}
		if delay > 0 {
			timer := time.NewTimer(delay)
			select {
			case <-timer.C:
			case <-s.wake:
				timer.Stop()
				delay = 0
				continue // start() was called, or a hold begun
			}
		}
		began := time.Now()
		if err := s.runOnce(); errors.Is(err, errHeld) {
			continue
		} else if err != nil {
			fmt.Fprintf(os.Stderr, "node agent: %s: %v\n", s.spec.Name, err)
			s.a.update(s.spec.Name, func(st *savedState) { st.LastExit = err.Error() })
			delay = max(delay, backOffFirst)
		}
		switch {
		case time.Since(began) > backOffReset:
			delay = 0
		case delay == 0 && time.Since(began) > backOffFirst:
			delay = time.Millisecond // the next one counts as a repetition
		default:
			delay = min(max(2*delay, backOffFirst), backOffMax)
		}
	}
}

// startAfterLimit is when a component is started for the first time even though
// the one before it does not answer.
const startAfterLimit = 20 * time.Second

// awaitOther returns when the component that this one should start after
// answers. It only saves time, so nothing depends on the answer being genuine.
func (s *supervisor) awaitOther() {
	if s.spec.StartAfter == "" {
		return
	}
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), startAfterLimit)
	defer cancel()
	_ = await.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := await.Request(ctx, client, http.MethodGet, s.spec.StartAfter, "")
		return err
	})
}

// awaitHold returns when the component may run, and whether it was held down.
func (s *supervisor) awaitHold() (was bool) {
	for {
		left := s.heldFor()
		if left <= 0 {
			return was
		}
		was = true
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// runOnce starts the component and returns when it has ended.
func (s *supervisor) runOnce() error {
	s.mu.Lock()
	path, args := s.spec.Path, s.spec.Args
	s.mu.Unlock()
	args, err := s.arguments(args)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening its log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: path, Args: args, Env: append(os.Environ(), s.spec.Env...), Dir: s.spec.Dir,
		Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := s.begin(cmd); err != nil {
		return err
	}
	s.a.clocks.settle(s.spec.Name, cmd.Process.Pid)
	// Waiting for its status would also take note of stops by ptrace, which
	// are for the one who traces it.
	awaitEnd(cmd.Process.Pid)
	_ = cmd.Wait() // how it ended is in ProcessState
	s.ended(cmd.ProcessState.String())
	return nil
}

// renew has the component started as the agent's configuration says by now. The process
// that runs is not touched.
func (s *supervisor) renew() error {
	cfg, err := readConfig(s.a.file)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, spec := range cfg.Components {
		if spec.Name == s.spec.Name {
			s.spec.Path, s.spec.Args = spec.Path, spec.Args
		}
	}
	return nil
}

// begin starts the process, unless the component is held down.
func (s *supervisor) begin(cmd *exec.Cmd) error {
	// Before this one's own lock, since clocks ask for processes.
	s.a.clocks.mu.Lock()
	defer s.a.clocks.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held() {
		return errHeld
	}
	if err := s.a.clocks.start(s.spec.Name, cmd); err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	st, _ := procfs.ReadStat("/proc", cmd.Process.Pid)
	s.runs(cmd.Process, st.StartTicks)
	s.a.join(s.spec.Name, cmd.Process.Pid)
	return nil
}

// runs takes note of a new process, with mu held.
func (s *supervisor) runs(proc *os.Process, ticks uint64) {
	s.proc, s.gone = proc, make(chan struct{})
	s.a.update(s.spec.Name, func(st *savedState) {
		if !st.Started.IsZero() {
			st.Restarts++
		}
		st.PID, st.StartTicks, st.Started = proc.Pid, ticks, time.Now()
		st.ThawAt = time.Time{}
	})
	s.crashLater()
	s.expireLater()
}

func (s *supervisor) ended(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.a.update(s.spec.Name, func(st *savedState) { st.PID, st.StartTicks, st.LastExit = 0, 0, how })
	s.proc = nil
	close(s.gone)
}

// adopt takes over the process that an earlier agent started, if it runs.
func (s *supervisor) adopt(saved savedState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if saved.PID != 0 {
		// The handle comes first: what it stands for cannot change any more.
		proc, err := os.FindProcess(saved.PID)
		if st, statErr := procfs.ReadStat("/proc", saved.PID); err == nil && statErr == nil && st.StartTicks == saved.StartTicks {
			s.proc, s.gone = proc, make(chan struct{})
			s.crashLater()
			s.expireLater()
			return true
		}
		s.a.update(s.spec.Name, func(st *savedState) { st.PID, st.StartTicks, st.LastExit = 0, 0, s.exitOf(saved.PID) })
	}
	// The agent may have died after a start and before it wrote that down.
	pids, err := procfs.Find("/proc", func(args []string) bool { return slices.Equal(args, s.spec.Args) })
	if err != nil || len(pids) == 0 {
		return false
	}
	proc, err := os.FindProcess(pids[0])
	st, statErr := procfs.ReadStat("/proc", pids[0])
	if err != nil || statErr != nil || st.Parent != 1 || st.Ended() {
		return false
	}
	s.runs(proc, st.StartTicks)
	return true
}

// awaitAdopted returns when the adopted process has ended. It is a child of
// the machine's first process, which notes its end.
func (s *supervisor) awaitAdopted() {
	pid, _ := s.current()
	s.a.clocks.settle(s.spec.Name, pid)
	s.a.join(s.spec.Name, pid)
	awaitEnd(pid)
	// The end is noted just after it can be seen.
	how := s.exitOf(pid)
	for deadline := time.Now().Add(time.Second); how == unknownExit && time.Now().Before(deadline); how = s.exitOf(pid) {
		time.Sleep(time.Millisecond)
	}
	s.ended(how)
}

// awaitEnd returns when a process has ended, and leaves its status where it is.
func awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
			return
		}
	}
}

const unknownExit = "unknown"

// exitOf returns how a process that the machine's first process reaped ended.
func (s *supervisor) exitOf(pid int) string {
	f, err := os.Open(s.a.cfg.Exits)
	if err != nil {
		return unknownExit
	}
	defer f.Close()
	how := unknownExit
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), strconv.Itoa(pid)+" "); ok {
			how = rest
		}
	}
	return how
}

func (s *supervisor) current() (pid int, gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0, nil
	}
	return s.proc.Pid, s.gone
}

// held reports whether the component is to be left down.
func (s *supervisor) held() bool { return s.heldFor() > 0 }

// heldFor is for how long the component is to be left down: one that stands by, until
// it is woken.
func (s *supervisor) heldFor() time.Duration {
	left := time.Until(s.a.saved(s.spec.Name).HoldUntil)
	if s.standsBy() {
		left = max(left, time.Hour)
	}
	return left
}

func (s *supervisor) signalWake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *supervisor) process() framework.Process {
	// A start changes both at once.
	s.mu.Lock()
	saved, pid := s.a.saved(s.spec.Name), 0
	if s.proc != nil {
		pid = s.proc.Pid
	}
	s.mu.Unlock()
	p := framework.Process{Component: s.spec.Name, PID: pid, Started: saved.Started, Restarts: saved.Restarts,
		LastExit: saved.LastExit, Held: time.Now().Before(saved.HoldUntil), Standby: pid == 0 && s.standsBy(),
		CrashLooped: time.Now().Before(saved.CrashUntil)}
	if pid != 0 {
		st, _ := procfs.ReadStat("/proc", pid)
		p.State, p.StartTicks = st.State, st.StartTicks
	}
	return p
}
