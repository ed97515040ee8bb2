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

// A freeze proves nothing if the process was killed before it was healed, as by the kubelet, or
// thawed by someone else.
func TestFreezeEndsEarly(t *testing.T) {
	for name, test := range map[string]struct {
		early func(*fakeProcess)
		says  string
	}{
		"frozen until then":    {func(*fakeProcess) {}, ""},
		"killed and restarted": {func(p *fakeProcess) { p.PID, p.State = p.PID+1000, "S" }, "had exited"},
		"killed":               {func(p *fakeProcess) { p.PID, p.StartTicks, p.State = 0, 0, "" }, "had exited"},
		"thawed":               {func(p *fakeProcess) { p.State = "S" }, "is in state S"},
	} {
		inBubble(t, name, func(t *testing.T, c *fakeCluster) {
			i := proofs{fault: Freeze, target: component("node-2", framework.APIServer)}.inject(t, c)
			test.early(c.nodes[1].processes[framework.APIServer])
			for range 2 {
				if _, err := i.Heal(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if p := i.Proof(); p.Proven != (test.says == "") || !strings.Contains(p.What, test.says) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Faults on processes end with the power: a node that another fault has switched
// off is not a reason to wait.
func TestHealWhilePoweredOff(t *testing.T) {
	for name, x := range map[string]struct {
		fault  *Fault
		params map[string]string
	}{
		"kill": {Kill, nil}, "kill, restarted": {Kill, map[string]string{"restart": "true"}}, "stop": {Stop, nil}, "restart": {Restart, nil},
		"freeze": {Freeze, nil}, "crash loop": {CrashLoop, nil}, "clock": {ClockJump, nil}, "certificate": {CertExpired, nil},
	} {
		inBubble(t, name, func(t *testing.T, c *fakeCluster) {
			p := proofs{fault: x.fault, target: component("node-2", framework.APIServer), params: x.params}
			first := p.inject(t, c)
			off := proofs{fault: PowerOff, target: wholeTarget("node-2")}.inject(t, c)
			began := time.Now()
			healed, err := first.Heal(t.Context())
			if err != nil || !healed.Proven || !strings.Contains(healed.What, "powered off by another fault") || time.Since(began) > 5*time.Second {
				t.Errorf("%+v, %v, after %s", healed, err, time.Since(began))
			}
			if !c.nodes[1].off {
				t.Error("its healing gave the node its power back")
			}
			if healed, err := off.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("%+v, %v", healed, err)
			}
		})
	}
}

// A clock is right again, as its memory shows, even if the component is frozen.
func TestClockOfAFrozenComponent(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *fakeCluster) {
		target := component("node-2", framework.APIServer)
		clock := proofs{fault: ClockJump, target: target}.inject(t, c)
		frozen := proofs{fault: Freeze, target: target}.inject(t, c)
		if healed, err := clock.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "while another fault freezes it") {
			t.Errorf("%+v, %v", healed, err)
		}
		if healed, err := frozen.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// Faults that overlap are healed each alone, in any order: what another fault
// keeps down is not a reason to wait.
func TestHealWhileHeld(t *testing.T) {
	for _, f := range []*Fault{Freeze, CrashLoop, ClockJump, CertExpired} {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.APIServer)
			time.Sleep(time.Minute)
			p := proofs{fault: f, target: component("node-2", framework.APIServer)}
			first := p.inject(t, c)
			if now := state(c, 1, framework.APIServer); now.Ended() {
				time.Sleep(2 * watcherPause)
			}
			p.fault = Kill
			second := p.inject(t, c)
			if healed, err := first.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "held down by another fault") {
				t.Errorf("%s: %+v, %v", f.Name, healed, err)
			}
			if now := state(c, 1, framework.APIServer); !now.Ended() || !now.Held {
				t.Errorf("%s: its healing healed the kill: %+v", f.Name, now)
			}
			if healed, err := second.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("%s: %+v, %v", f.Name, healed, err)
			}
		})
	}
}
