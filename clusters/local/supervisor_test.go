package local

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

const sleeper framework.Component = "sleeper"

// newSleeper returns a supervisor of a process that does nothing.
func newSleeper(t *testing.T, dir string, state *savedState) *supervisor {
	t.Helper()
	a := &agent{cfg: agentConfig{State: filepath.Join(dir, "state"), Exits: filepath.Join(dir, "exits")},
		state: map[framework.Component]*savedState{sleeper: state}}
	var err error
	if a.clocks, err = newClocks(a); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(a, componentSpec{Name: sleeper, Path: "/bin/sleep", Args: []string{"sleep", "3600"}, Log: filepath.Join(dir, "log")})
	t.Cleanup(func() { _ = s.kill(time.Hour) })
	return s
}

func running(s *supervisor) func() bool {
	return func() bool { pid, _ := s.current(); return pid != 0 }
}

// A hold that comes between two processes keeps the next one from being
// started, even where the supervisor has looked for holds already.
func TestHoldBetweenTwoProcesses(t *testing.T) {
	s := newSleeper(t, t.TempDir(), &savedState{})
	if err := s.kill(0); !errors.Is(err, errNotRunning) {
		t.Errorf("nothing to kill, and no hold: %v", err)
	}
	if err := s.kill(time.Hour); err != nil {
		t.Errorf("a hold between two processes: %v", err)
	}
	if err := s.runOnce(); !errors.Is(err, errHeld) { // what run does after it has looked
		t.Fatalf("it was started although it is held down: %v", err)
	}
	if err := s.stop(t.Context(), 2*time.Hour); !errors.Is(err, errNotRunning) {
		t.Errorf("stopping what is held down: %v", err)
	}
	if left := time.Until(s.a.saved(sleeper).HoldUntil); left > time.Hour {
		t.Errorf("a stop that did nothing made the hold longer: %s", left)
	}
	go s.run(false)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it runs after the end of the hold", running(s))
}

// A crash loop outlives the agent that began it.
func TestCrashLoopIsAdopted(t *testing.T) {
	dir := t.TempDir()
	s := newSleeper(t, dir, &savedState{})
	go s.run(false)
	eventually(t, 10*time.Second, "it runs", running(s))
	if err := s.crashLoop(time.Hour, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it runs again", func() bool { return s.process().Restarts == 1 && s.process().PID != 0 })
	if err := s.crashLoop(time.Hour, time.Hour); !errors.Is(err, errCrashLoop) {
		t.Errorf("a second crash loop: %v", err)
	}
	saved := s.a.saved(sleeper)
	saved.CrashAfter = time.Millisecond // for the successor, the time is now

	successor := newSleeper(t, dir, &saved)
	if !successor.adopt(saved) {
		t.Fatal("not adopted")
	}
	go successor.awaitAdopted()
	_, gone := s.current()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the successor does not kill it")
	}
	if p := s.process(); p.LastExit != "signal: killed" {
		t.Errorf("%+v", p)
	}
	if err := s.endCrashLoop(); err != nil || s.process().CrashLooped {
		t.Errorf("still in a crash loop: %v", err)
	}
}
