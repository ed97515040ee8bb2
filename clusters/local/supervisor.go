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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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

// stopGrace is how long a component may take to end after SIGTERM before it is
// killed.
const stopGrace = 60 * time.Second

// supervisor keeps one component running.
type supervisor struct {
	a    *agent
	spec componentSpec

	mu      sync.Mutex
	pid     int           // 0 where nothing runs
	ticks   uint64        // start time of pid
	gone    chan struct{} // closed when pid has ended
	wake    chan struct{} // a hold was changed
	thawing *time.Timer
}

func newSupervisor(a *agent, spec componentSpec) *supervisor {
	return &supervisor{a: a, spec: spec, wake: make(chan struct{}, 1)}
}

// run adopts the process of an earlier agent if it still runs, and from then
// on starts the component whenever it is down and not held down.
func (s *supervisor) run() {
	delay := time.Duration(0)
	saved := s.a.saved(s.spec.Name)
	if s.adopt(saved) {
		s.resumeFreeze(saved)
		s.awaitAdopted()
	} else if saved.Started.IsZero() {
		s.awaitOther()
	}
	for {
		s.awaitHold()
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
		if err := s.runOnce(); err != nil {
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
	_ = poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := request(ctx, client, http.MethodGet, s.spec.StartAfter, "")
		return err
	})
}

// awaitHold returns when the component may run.
func (s *supervisor) awaitHold() {
	for {
		left := time.Until(s.a.saved(s.spec.Name).HoldUntil)
		if left <= 0 {
			return
		}
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
	args, err := s.arguments()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening its log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: s.spec.Path, Args: args, Env: append(os.Environ(), s.spec.Env...), Dir: s.spec.Dir,
		Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	_, ticks, _ := procStat(cmd.Process.Pid)
	gone := make(chan struct{})
	s.mu.Lock()
	s.pid, s.ticks, s.gone = cmd.Process.Pid, ticks, gone
	s.mu.Unlock()
	s.a.update(s.spec.Name, func(st *savedState) {
		if !st.Started.IsZero() {
			st.Restarts++
		}
		st.PID, st.StartTicks, st.Started = cmd.Process.Pid, ticks, time.Now()
		st.ThawAt = time.Time{}
	})
	_ = cmd.Wait() // how it ended is in ProcessState
	s.ended(cmd.ProcessState.String())
	return nil
}

func (s *supervisor) ended(how string) {
	s.a.update(s.spec.Name, func(st *savedState) { st.PID, st.StartTicks, st.LastExit = 0, 0, how })
	s.mu.Lock()
	s.pid = 0
	close(s.gone)
	s.mu.Unlock()
}

func (s *supervisor) adopt(saved savedState) bool {
	if saved.PID == 0 {
		return false
	}
	_, ticks, err := procStat(saved.PID)
	if err != nil || ticks != saved.StartTicks {
		s.a.update(s.spec.Name, func(st *savedState) { st.PID, st.StartTicks, st.LastExit = 0, 0, s.exitOf(saved.PID) })
		return false
	}
	s.mu.Lock()
	s.pid, s.ticks, s.gone = saved.PID, ticks, make(chan struct{})
	s.mu.Unlock()
	return true
}

// awaitAdopted returns when the adopted process has ended. It is a child of
// the machine's first process, which notes its end.
func (s *supervisor) awaitAdopted() {
	pid := s.pid
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err != unix.EINTR {
				break
			}
		}
		_ = unix.Close(fd)
	}
	// The end is noted just after it can be seen.
	how := s.exitOf(pid)
	for deadline := time.Now().Add(time.Second); how == unknownExit && time.Now().Before(deadline); how = s.exitOf(pid) {
		time.Sleep(time.Millisecond)
	}
	s.ended(how)
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
	return s.pid, s.gone
}

var errNotRunning = errors.New("it is not running")

func (s *supervisor) hold(d time.Duration) {
	if d > 0 {
		s.a.update(s.spec.Name, func(st *savedState) { st.HoldUntil = time.Now().Add(d) })
		s.signalWake()
	}
}

func (s *supervisor) signalWake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *supervisor) kill(hold time.Duration) error {
	s.hold(hold)
	pid, gone := s.current()
	if pid == 0 {
		return errNotRunning
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("SIGKILL to process %d: %w", pid, err)
	}
	<-gone
	return nil
}

func (s *supervisor) stop(ctx context.Context, hold time.Duration) error {
	s.hold(hold)
	pid, gone := s.current()
	if pid == 0 {
		return errNotRunning
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM to process %d: %w", pid, err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-grace.C:
		_ = syscall.Kill(pid, syscall.SIGKILL)
		<-gone
		return fmt.Errorf("process %d did not end within %s of SIGTERM and was killed", pid, stopGrace)
	}
}

// start ends a hold.
func (s *supervisor) start() error {
	s.a.update(s.spec.Name, func(st *savedState) { st.HoldUntil = time.Time{} })
	s.signalWake()
	return nil
}

func (s *supervisor) freeze(ttl time.Duration) error {
	pid, _ := s.current()
	if pid == 0 {
		return errNotRunning
	}
	if ttl <= 0 {
		return errors.New("a freeze needs a time to live above zero")
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.ThawAt = time.Now().Add(ttl) })
	s.thawIn(ttl)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("SIGSTOP to process %d: %w", pid, err)
	}
	return nil
}

func (s *supervisor) thawIn(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thawing != nil {
		s.thawing.Stop()
	}
	s.thawing = time.AfterFunc(d, func() { _ = s.thaw() })
}

func (s *supervisor) resumeFreeze(saved savedState) {
	if !saved.ThawAt.IsZero() {
		s.thawIn(max(0, time.Until(saved.ThawAt)))
	}
}

func (s *supervisor) thaw() error {
	s.a.update(s.spec.Name, func(st *savedState) { st.ThawAt = time.Time{} })
	pid, _ := s.current()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("SIGCONT to process %d: %w", pid, err)
	}
	return nil
}

func (s *supervisor) process() framework.Process {
	saved := s.a.saved(s.spec.Name)
	pid, _ := s.current()
	p := framework.Process{Component: s.spec.Name, PID: pid, Started: saved.Started, Restarts: saved.Restarts,
		LastExit: saved.LastExit, Held: time.Now().Before(saved.HoldUntil)}
	if pid != 0 {
		p.State, p.StartTicks, _ = procStat(pid)
	}
	return p
}

// procStat reads a process's state letter and start time in clock ticks.
func procStat(pid int) (state string, startTicks uint64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The command stands in parentheses and may hold anything but a newline.
	_, rest, ok := strings.Cut(string(b), ") ")
	for ok {
		var after string
		if _, after, ok = strings.Cut(rest, ") "); ok {
			rest = after
		}
	}
	f := strings.Fields(rest)
	if len(f) < 20 {
		return "", 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	startTicks, err = strconv.ParseUint(f[19], 10, 64)
	return f[0], startTicks, err
}
