package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
)

// engineOfOne is a docker that has one container, whose state is in the file state.
const engineOfOne = `state=$(cat $DIR/state)
case "$1" in
container) echo "[{\"Id\":\"1f\",\"Name\":\"/x\",\"State\":{\"Running\":$(case $state in off) echo false;; *) echo true;; esac),\"Paused\":$(case $state in paused) echo true;; *) echo false;; esac)}}]";;
pause) echo paused > $DIR/state;;
kill) echo off > $DIR/state;;
unpause|start) echo on > $DIR/state;;
esac`

func setState(t *testing.T, dir, state string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "state"), []byte(state+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readState(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "state"))
	return strings.TrimSpace(string(b))
}

// A container that its creator does not bring back is brought back by its guard, which has a
// session of its own.
func TestGuard(t *testing.T) {
	dir := fakeDocker(t, engineOfOne)
	setState(t, dir, "on")
	g, err := startGuard(guardOrder{Container: "x", Verb: "unpause", After: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if session, err := sessionOf(g.proc.Pid); err != nil || session != g.proc.Pid {
		t.Errorf("the guard is in session %d, %v", session, err)
	}
	setState(t, dir, "paused")
	if err := g.count(); err != nil {
		t.Error(err)
	}
	select {
	case <-g.gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the guard goes on")
	}
	if got := readState(dir); got != "on" {
		t.Errorf("the container is %s", got)
	}
	g.end() // of one that is gone
}

// TestBooted: the engine reports when the container was started.
func TestBooted(t *testing.T) {
	dir := fakeDocker(t, strings.Replace(engineOfOne, `\"Running\":`, `\"StartedAt\":\"2026-11-30T10:00:00.5Z\",\"Running\":`, 1))
	n := &node{name: "x", cluster: &Cluster{cli: docker.CLI{}}}
	for state, want := range map[string]time.Time{"on": time.Date(2026, 11, 30, 10, 0, 0, 5e8, time.UTC), "off": {}} {
		setState(t, dir, state)
		if got := n.Booted(); !got.Equal(want) {
			t.Errorf("%s: started at %s, want %s", state, got, want)
		}
	}
}

// The time to live starts when the fault has begun: a guard whose countdown was over before would find the
// container running, and exit.
func TestGuardWaitsForFault(t *testing.T) {
	dir := fakeDocker(t, strings.Replace(engineOfOne, "kill)", "kill) sleep 0.3;", 1))
	setState(t, dir, "on")
	n := &node{name: "x", cluster: &Cluster{cli: docker.CLI{}}}
	err := n.takeAway(t.Context(), "start", 100*time.Millisecond, func(ctx context.Context) error {
		_, err := n.docker(ctx, "kill", n.name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.guards["start"].gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the guard still runs")
	}
	if got := calls(t, dir); !strings.Contains(got, "start 1f\n") || readState(dir) != "on" {
		t.Errorf("the container is %s:\n%s", readState(dir), got)
	}
}

// A harness that was killed, or stopped, before the fault has begun writes nothing.
func TestGuardOfKilledHarness(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const limit = 50 * time.Millisecond
	for range 2 {
		began := time.Now()
		awaitFault(r, limit)
		if waited := time.Since(began); waited < limit {
			t.Errorf("the guard waited for %s, want %s", waited, limit)
		}
		_ = w.Close()
	}
}

// A guard does not wait for ever for an engine that does not answer.
func TestGuardWithoutEngine(t *testing.T) {
	fakeDocker(t, "echo 'no engine' >&2; exit 1")
	if err := (guardOrder{Container: "1f", Verb: "unpause"}).insist(0); err == nil || !strings.Contains(err.Error(), "no engine") {
		t.Error(err)
	}
}

func sessionOf(pid int) (int, error) {
	sid, _, err := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(sid), nil
}

func TestPower(t *testing.T) {
	dir := fakeDocker(t, engineOfOne)
	setState(t, dir, "on")
	n := &node{name: "x", cluster: &Cluster{cli: docker.CLI{}}}
	ctx := context.Background()
	// PowerOff but for the network, which takes agents.
	off := func(ttl time.Duration) error {
		return n.takeAway(ctx, "start", ttl, func(ctx context.Context) error {
			_, err := n.docker(ctx, "kill", n.name)
			return err
		})
	}
	if err := off(0); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("without a time to live: %v", err)
	}
	if err := off(time.Hour); err != nil {
		t.Fatal(err)
	}
	if on, err := n.Powered(ctx); err != nil || on {
		t.Errorf("powered: %t, %v", on, err)
	}
	if err := off(time.Hour); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("a second time: %v", err)
	}
	guard := n.guards["start"]
	// Nothing is paused: what brings power back stays.
	if err := n.Resume(ctx); err != nil || n.guards["start"] != guard {
		t.Errorf("resumed: %v, guard %v", err, n.guards["start"])
	}
	if err := n.Pause(ctx, time.Hour); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("paused without power: %v", err)
	}
	for range 2 {
		if err := n.PowerOn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := readState(dir); got != "on" {
		t.Errorf("the container is %s", got)
	}
	select {
	case <-guard.gone:
	default:
		t.Error("the guard goes on")
	}
}

// A power-off that a paused node refuses leaves the pause its guard, which ends with the pause.
func TestRefusedPowerOffOfPausedNode(t *testing.T) {
	dir := fakeDocker(t, engineOfOne)
	setState(t, dir, "on")
	n := &node{name: "x", cluster: &Cluster{cli: docker.CLI{}}}
	ctx := t.Context()
	if err := n.Pause(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	pause := n.guards["unpause"]
	refusal := errors.New("the agent does not answer")
	if err := n.takeAway(ctx, "start", time.Hour, func(context.Context) error { return refusal }); !errors.Is(err, refusal) {
		t.Fatal(err)
	}
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-pause.gone:
		t.Fatal("the pause has lost its guard")
	default:
	}
	if err := n.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-pause.gone:
	case <-time.After(20 * time.Second):
		t.Error("the guard of the pause would end the next one")
		pause.end()
	}
}

func TestPause(t *testing.T) {
	dir := fakeDocker(t, engineOfOne)
	setState(t, dir, "on")
	n := &node{name: "x", cluster: &Cluster{cli: docker.CLI{}}}
	ctx := context.Background()
	if err := n.Pause(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if paused, err := n.Paused(ctx); err != nil || !paused {
		t.Errorf("paused: %t, %v", paused, err)
	}
	if on, err := n.Powered(ctx); err != nil || !on {
		t.Errorf("powered: %t, %v", on, err)
	}
	guard := n.guards["unpause"]
	if err := n.Pause(ctx, time.Hour); !errors.Is(err, framework.ErrNothingDone) || n.guards["unpause"] != guard {
		t.Errorf("a second time: %v", err)
	}
	for range 2 {
		if err := n.Resume(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := readState(dir); got != "on" || n.guards["unpause"] != nil {
		t.Errorf("the container is %s, its guard %v", got, n.guards["unpause"])
	}
	// Its own time to live.
	if err := n.Pause(ctx, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.guards["unpause"].gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the guard goes on")
	}
	if got := calls(t, dir); !strings.Contains(got, "unpause 1f\n") {
		t.Errorf("the guard may unpause another container of the name:\n%s", got)
	}
	if paused, err := n.Paused(ctx); err != nil || paused {
		t.Errorf("paused: %t, %v", paused, err)
	}
}
