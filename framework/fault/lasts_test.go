package fault

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// A fault whose effect ended before it was healed is not proven: a reboot of its node ends most.
func TestEndsEarly(t *testing.T) {
	api := component("node-2", framework.APIServer)
	for name, x := range map[string]struct {
		proofs
		says string
	}{
		"kill":    {proofs{fault: Kill, target: api}, "already ran as"},
		"stop":    {proofs{fault: Stop, target: api}, "already ran as"},
		"clock":   {proofs{fault: ClockJump, target: api}, "was not moved"},
		"load":    {proofs{fault: CPUPressure, target: wholeTarget("node-2"), params: map[string]string{"by": "load"}}, "had exited"},
		"cgroup":  {proofs{fault: CPUPressure, target: wholeTarget("node-2"), params: map[string]string{"by": "cgroup"}}, "was gone"},
		"memory":  {proofs{fault: MemoryPressure, target: wholeTarget("node-2"), params: map[string]string{"by": "load"}}, "had exited"},
		"loop":    {proofs{fault: CrashLoop, target: api}, "was over"},
		"pause":   {proofs{fault: Pause, target: wholeTarget("node-2")}, "was not paused"},
		"power":   {proofs{fault: PowerOff, target: wholeTarget("node-2")}, "was powered"},
		"restart": {proofs{fault: Restart, target: api}, ""}, // has no effect that lasts
	} {
		for _, early := range []bool{false, true} {
			inBubble(t, name, func(t *testing.T, c *fakeCluster) {
				i := x.inject(t, c)
				if early {
					c.nodes[1].power(false)
					c.nodes[1].power(true)
					time.Sleep(time.Second)
				}
				for range 2 {
					if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
						t.Errorf("%+v, %v", healed, err)
					}
				}
				if p := i.Proof(); p.Proven != (!early || x.says == "") || early && !strings.Contains(p.What, x.says) {
					t.Errorf("%+v", p)
				}
			})
		}
	}
}

// TestRestartedWithout: a process that was restarted in the meantime, and to which the fault does not
// apply, withdraws the proof.
func TestRestartedWithout(t *testing.T) {
	api := component("node-2", framework.APIServer)
	for name, x := range map[string]struct {
		proofs
		restarts func(*fakeCluster)
		says     string
	}{
		"clock":  {proofs{fault: ClockJump, target: api}, func(c *fakeCluster) { c.nodes[1].trust.unmoved = true }, "was not moved"},
		"cgroup": {proofs{fault: CPUPressure, target: api, params: map[string]string{"by": "cgroup"}}, func(c *fakeCluster) { c.astrayProcess = true }, "processes [17]"},
	} {
		inBubble(t, name, func(t *testing.T, c *fakeCluster) {
			i := x.inject(t, c)
			proven := i.Proof().Proven
			x.restarts(c)
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("%+v, %v", healed, err)
			}
			if p := i.Proof(); !proven || p.Proven || !strings.Contains(p.What, x.says) {
				t.Errorf("proven at first: %t; then %+v", proven, p)
			}
		})
	}
}

// Healing a restart or a kill does not end a later fault on the same component. After a kill with
// restart=true, healing first gives the process watcher its time to restart the component.
func TestHealingLeavesLaterFaults(t *testing.T) {
	api := component("node-2", framework.APIServer)
	restarted := map[string]string{"restart": "true"}
	for name, x := range map[string]struct {
		first, later proofs
		takes        time.Duration
	}{
		"restart, kill":         {proofs{fault: Restart, target: api}, proofs{fault: Kill, target: api}, 5 * time.Second},
		"killed for once, stop": {proofs{fault: Kill, target: api, params: restarted}, proofs{fault: Stop, target: api}, healLimit + time.Second},
		"restart, power-off":    {proofs{fault: Restart, target: api}, proofs{fault: PowerOff, target: wholeTarget("node-2")}, 5 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T, c *fakeCluster) {
			first := x.first.inject(t, c)
			time.Sleep(time.Second)
			later := x.later.inject(t, c)
			began := time.Now()
			if healed, err := first.Heal(t.Context()); err != nil || !healed.Proven || time.Since(began) > x.takes {
				t.Errorf("%+v, %v, after %s", healed, err, time.Since(began))
			}
			if now := state(c, 1, framework.APIServer); !now.Ended() {
				t.Errorf("the later fault is over: %+v", now)
			}
			if healed, err := later.Heal(t.Context()); err != nil || !healed.Proven || !later.Proof().Proven {
				t.Errorf("%+v, %v, %+v", healed, err, later.Proof())
			}
		})
	}
}
