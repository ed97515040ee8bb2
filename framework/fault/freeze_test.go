package fault

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestFreeze(t *testing.T) {
	for name, already := range map[string]func(*fakeProcess){
		"frozen":      func(p *fakeProcess) { p.State = "T" },
		"not running": func(p *fakeProcess) { p.PID, p.State = 0, "" },
	} {
		t.Run(name, func(t *testing.T) {
			proofs{
				fault:   Freeze,
				target:  component("node-3", framework.APIServer),
				broken:  func(c *fakeCluster) bool { return state(c, 2, framework.APIServer).State == "T" },
				already: func(c *fakeCluster) { already(c.nodes[2].processes[framework.APIServer]) },
			}.run(t)
		})
	}
}

// Faults that overlap are healed each alone, in any order: what another fault
// keeps down is no reason to wait.
func TestHealWhileHeld(t *testing.T) {
	for _, f := range []Fault{Freeze, CrashLoop} {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.APIServer)
			time.Sleep(time.Minute)
			p := proofs{fault: f, target: component("node-2", framework.APIServer)}
			first := p.inject(t, c)
			if now := state(c, 1, framework.APIServer); ended(now) {
				time.Sleep(2 * watcherPause)
			}
			p.fault = Kill
			second := p.inject(t, c)
			if healed, err := first.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "held down by another fault") {
				t.Errorf("%s: %+v, %v", f.Name(), healed, err)
			}
			if now := state(c, 1, framework.APIServer); !ended(now) || !now.Held {
				t.Errorf("%s: its healing healed the kill: %+v", f.Name(), now)
			}
			if healed, err := second.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("%s: %+v, %v", f.Name(), healed, err)
			}
		})
	}
}
