package local

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
)

// A supervised component runs while it is admitted, and has ended by the end of that.
func TestAdmission(t *testing.T) {
	dir := t.TempDir()
	s := newSleeper(t, dir, &savedState{})
	if err := s.admit(0); err == nil {
		t.Error("a component that is not supervised was admitted")
	}
	s.spec.Supervised = true
	go s.run(false)
	time.Sleep(50 * time.Millisecond)
	if p := s.process(); p.PID != 0 || !p.Standby {
		t.Fatalf("it was never admitted: %+v", p)
	}
	if err := s.admit(podmaster.Now() + time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it runs", running(s))
	first, _ := s.current()
	if err := s.admit(podmaster.Now() + 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p := s.process(); p.Standby || p.PID != first {
		t.Errorf("admitted anew: %+v", p)
	}
	eventually(t, 10*time.Second, "it ends by itself", func() bool { return !running(s)() })
	if p := s.process(); !p.Standby || p.LastExit != "signal: killed" {
		t.Errorf("%+v", p)
	}
	time.Sleep(50 * time.Millisecond)
	if running(s)() {
		t.Error("it was started again")
	}

	if err := s.admit(podmaster.Now() + time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it runs again", running(s))
	if err := s.admit(0); err != nil || running(s)() {
		t.Errorf("it runs after its dismissal, or %v", err)
	}
	if err := s.kill(time.Hour); err != errNotRunning {
		t.Errorf("killing what stands by: %v", err)
	}
}

// An agent's successor keeps to the admission.
func TestAdmissionIsAdopted(t *testing.T) {
	dir := t.TempDir()
	s := newSleeper(t, dir, &savedState{AdmittedUntil: podmaster.Now() + time.Hour})
	s.spec.Supervised = true
	go s.run(false)
	eventually(t, 10*time.Second, "it runs", running(s))
	saved := s.a.saved(sleeper)
	saved.AdmittedUntil = podmaster.Now() + 50*time.Millisecond
	successor := newSleeper(t, dir, &saved)
	successor.spec.Supervised = true
	if !successor.adopt(saved) {
		t.Fatal("not adopted")
	}
	go successor.awaitAdopted()
	eventually(t, 10*time.Second, "the successor ends it", func() bool { return !running(successor)() })
}
