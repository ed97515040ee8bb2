package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// stopGrace is how long a component may take to end after SIGTERM before it is
// killed: what the kubelet grants a pod by default (terminationGracePeriodSeconds).
// An API server with watches open takes from ten seconds to a minute.
const stopGrace = 30 * time.Second

const (
	errNotRunning = agenthttp.NothingDone("it is not running")
	errHeld       = agenthttp.NothingDone("it is held down")
	errNoTTL      = agenthttp.NothingDone("it needs a time to live above zero")
	errCrashLoop  = agenthttp.NothingDone("it is in a crash loop already")
	errFrozen     = agenthttp.NothingDone("it is frozen already")
)

// signal ends the component with a signal and leaves it down for hold. It
// returns what to wait for. Between two processes, a hold keeps the next one
// from being started, and there is nothing to wait for; where a hold is in
// force already, or none is asked for, there is nothing to end.
func (s *supervisor) signal(sig syscall.Signal, hold time.Duration) (*os.Process, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil && (hold <= 0 || s.held()) {
		return nil, nil, errNotRunning
	}
	if hold > 0 {
		s.a.update(s.spec.Name, func(st *savedState) { st.HoldUntil = time.Now().Add(hold) })
		s.signalWake()
	}
	if s.proc == nil {
		return nil, nil, nil
	}
	// One that has ended on its own just now is held down all the same.
	if err := s.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, nil, fmt.Errorf("%s to process %d: %w", sig, s.proc.Pid, err)
	}
	return s.proc, s.gone, nil
}

func (s *supervisor) kill(hold time.Duration) error {
	proc, gone, err := s.signal(syscall.SIGKILL, hold)
	if proc != nil {
		<-gone
	}
	return err
}

// stop ends the component gracefully, if it can. The hold counts from its end,
// and lasts for as long as that takes besides.
func (s *supervisor) stop(ctx context.Context, hold time.Duration) error {
	first := hold
	if hold > 0 {
		first += stopGrace
	}
	proc, gone, err := s.signal(syscall.SIGTERM, first)
	if proc == nil {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-gone:
	case <-ctx.Done():
		return ctx.Err()
	case <-grace.C:
		_ = proc.Kill()
		<-gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if hold > 0 && s.held() {
		s.a.update(s.spec.Name, func(st *savedState) { st.HoldUntil = time.Now().Add(hold) })
		s.signalWake()
	}
	return nil
}

// start ends a hold, and the back-off of a restart.
func (s *supervisor) start() error {
	s.mu.Lock() // a stop that ends now may be about to set a hold anew
	defer s.mu.Unlock()
	s.a.update(s.spec.Name, func(st *savedState) { st.HoldUntil = time.Time{} })
	s.signalWake()
	return nil
}

// reload sends SIGHUP, upon which those that can read their configuration again.
func (s *supervisor) reload() error {
	_, _, err := s.signal(syscall.SIGHUP, 0)
	return err
}

func (s *supervisor) freeze(ttl time.Duration) error {
	if ttl <= 0 {
		return errNoTTL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.proc == nil:
		return errNotRunning
	case !s.a.saved(s.spec.Name).ThawAt.IsZero():
		return errFrozen
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.ThawAt = time.Now().Add(ttl) })
	s.thawing.Start(&s.mu, s.spec.Name, ttl, s.goOn)
	if err := s.proc.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("SIGSTOP to process %d: %w", s.proc.Pid, err)
	}
	return nil
}

func (s *supervisor) resumeFreeze(saved savedState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !saved.ThawAt.IsZero() {
		s.thawing.Start(&s.mu, s.spec.Name, time.Until(saved.ThawAt), s.goOn)
	}
}

func (s *supervisor) thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thawing.Stop(s.spec.Name)
	return s.goOn()
}

// goOn continues the component's process; with mu held.
func (s *supervisor) goOn() error {
	s.a.update(s.spec.Name, func(st *savedState) { st.ThawAt = time.Time{} })
	if s.proc == nil {
		return nil
	}
	if err := s.proc.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("SIGCONT to process %d: %w", s.proc.Pid, err)
	}
	return nil
}

// crashLoop kills the component now and after each start, until ttl has passed.
func (s *supervisor) crashLoop(after, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ttl <= 0:
		return errNoTTL
	case s.proc == nil:
		return errNotRunning
	case time.Now().Before(s.a.saved(s.spec.Name).CrashUntil):
		return errCrashLoop
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.CrashAfter, st.CrashUntil = after, time.Now().Add(ttl) })
	return s.proc.Kill()
}

// crashLater kills a process that has just been started, or adopted, if it is
// in a crash loop; with mu held.
func (s *supervisor) crashLater() {
	proc := s.proc
	saved := s.a.saved(s.spec.Name)
	if !time.Now().Before(saved.CrashUntil) {
		return
	}
	s.crashing = time.AfterFunc(saved.CrashAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.proc == proc && time.Now().Before(s.a.saved(s.spec.Name).CrashUntil) {
			_ = proc.Kill()
		}
	})
}

// endCrashLoop ends it, and the back-off of the restart that it led to.
func (s *supervisor) endCrashLoop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashing != nil {
		s.crashing.Stop()
		s.crashing = nil
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.CrashUntil = time.Time{} })
	s.signalWake()
	return nil
}
