package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// A request that fails may have been carried out. If it cannot be undone immediately and the
// provider does not undo it either, it is retried again and again.
func TestFailedRequestIsUndoneLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, undone := true, 0
		a := attempt{
			what: "breaking", ttl: time.Minute,
			ask: func(context.Context) error { return errors.New("no answer") },
			undo: func(context.Context) error {
				if undone++; undone < 4 {
					return errors.New("no quorum")
				}
				broken = false
				return nil
			},
		}
		if i, err := a.injection(t.Context()); i != nil || err == nil {
			t.Fatalf("%v, %v", i, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if broken || undone != 4 {
			t.Errorf("undone %d times, broken %v", undone, broken)
		}
	})
}

// Its time may be over before the fault is active.
func TestTimeOverAtOnce(t *testing.T) {
	broken := false
	done := make(chan struct{})
	i, err := attempt{
		what: "breaking", ttl: time.Nanosecond,
		ask:    func(context.Context) error { broken = true; return nil },
		effect: func(context.Context) (bool, string) { return true, "" },
		undo:   func(context.Context) error { broken = false; close(done); return nil },
		healed: func(context.Context) (bool, string) { return true, "" },
	}.inject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || broken {
		t.Errorf("%+v, %v, broken %v", healed, err, broken)
	}
}

// Two injections of the same fault may both find the target healthy. The second does not heal the
// first.
func TestSecondOfTwoAtOnce(t *testing.T) {
	apiserver := component("node-2", framework.APIServer)
	for name, x := range map[string]struct {
		fault  *Fault
		target Target
		// first puts the fault into force in a way that before it is not seen.
		first  func(*fakeNode) error
		broken func(*fakeNode) bool
	}{
		"kill": {Kill, apiserver, func(n *fakeNode) error { return n.Kill(t.Context(), framework.APIServer, time.Hour) },
			func(n *fakeNode) bool { return n.processes[framework.APIServer].Held }},
		"restart": {Restart, apiserver, func(n *fakeNode) error { return n.Kill(t.Context(), framework.APIServer, time.Hour) },
			func(n *fakeNode) bool { return n.processes[framework.APIServer].Held }},
		"freeze": {Freeze, apiserver, func(n *fakeNode) error { return n.Freeze(t.Context(), framework.APIServer, time.Hour) },
			func(n *fakeNode) bool { return n.processes[framework.APIServer].State == "T" }},
		"crash loop": {CrashLoop, apiserver, func(n *fakeNode) error { return n.CrashLoop(t.Context(), framework.APIServer, 0, time.Hour) },
			func(n *fakeNode) bool { return n.processes[framework.APIServer].CrashLooped }},
		"certificate": {CertExpired, apiserver, func(n *fakeNode) error {
			return n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateWrongNames, time.Hour)
		}, func(n *fakeNode) bool { return n.trust.defects[framework.APIServer] != "" }},
		"power": {PowerOff, wholeTarget("node-2"), func(n *fakeNode) error { return n.PowerOff(t.Context(), time.Hour) },
			func(n *fakeNode) bool { return n.off }},
		"pause": {Pause, wholeTarget("node-2"), func(n *fakeNode) error { return n.Pause(t.Context(), time.Hour) },
			func(n *fakeNode) bool { return n.paused }},
		"reboot": {Reboot, wholeTarget("node-2"), func(n *fakeNode) error { return n.PowerOff(t.Context(), time.Hour) },
			func(n *fakeNode) bool { return n.off }},
	} {
		inBubble(t, name, func(t *testing.T, c *fakeCluster) {
			c.before = func(n *fakeNode) {
				c.before = nil
				if err := x.first(n); err != nil {
					t.Error(err)
				}
			}
			i, err := x.fault.Inject(t.Context(), c, x.target, Params{TTL: ttl})
			if i != nil || !errors.Is(err, framework.ErrNothingDone) || !x.broken(c.nodes[1]) {
				t.Errorf("%v, %v, the first active: %v", i, err, x.broken(c.nodes[1]))
			}
		})
	}
}

// A process that is being stopped, gracefully and slowly, belongs to another fault.
func TestKillWhileStopped(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *fakeCluster) {
		c.nodes[1].processes[framework.APIServer].Held = true // and runs
		proofs := proofs{fault: Kill, target: component("node-2", framework.APIServer)}
		if i := proofs.inject(t, c); i.Proof().Proven || c.asked != 0 {
			t.Errorf("%+v, asked %d times", i.Proof(), c.asked)
		}
	})
}

// A check that the limit cuts short does not replace what was seen before.
func TestAwaitLastSeen(t *testing.T) {
	checks := 0
	_, held, seen := await(t.Context(), 100*time.Millisecond, func(ctx context.Context) (bool, string) {
		if checks++; checks == 1 {
			return false, "status 500"
		}
		<-ctx.Done()
		return false, "it does not answer"
	})
	if held || !strings.HasPrefix(seen, "status 500, after ") {
		t.Errorf("held %v, seen %q", held, seen)
	}
}
