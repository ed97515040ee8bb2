package fault

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestReboot(t *testing.T) {
	for name, target := range map[string]Target{
		"node": wholeTarget("node-2"),
		"zone": zone("b", "node-2", "node-3"),
	} {
		bubble := func(what string, f func(t *testing.T, c *fakeCluster, p Params)) {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newFake(framework.APIServer, framework.Scheduler)
					time.Sleep(time.Minute)
					f(t, c, Params{TTL: ttl, Values: map[string]string{"off": "3s"}})
				})
			})
		}
		bubble("proof and healing", func(t *testing.T, c *fakeCluster, p Params) {
			old := state(c, 1, framework.Scheduler)
			i, err := Reboot.Inject(t.Context(), c, target, p)
			if err != nil {
				t.Fatal(err)
			}
			now := state(c, 1, framework.Scheduler)
			if proof := i.Proof(); !proof.Proven || now.Ended() || same(now, old) || !strings.Contains(proof.What, now.ID()) || proof.Effect.Sub(proof.Called) < 3*time.Second {
				t.Fatalf("%+v; now %+v", proof, now)
			}
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("healed %+v, %v", healed, err)
			}
			t.Log(i.Proof().What)
		})
		bubble("no effect, no proof", func(t *testing.T, c *fakeCluster, p Params) {
			c.inert = true
			i, err := Reboot.Inject(t.Context(), c, target, p)
			if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, "still runs") {
				t.Fatalf("%v, %v", i, err)
			}
		})
		bubble("one node of the target does not come back", func(t *testing.T, c *fakeCluster, p Params) {
			i, err := Reboot.Inject(t.Context(), c, target, p)
			if err != nil {
				t.Fatal(err)
			}
			c.nodes[1].power(false)
			c.stubborn = true
			if healed, err := i.Heal(t.Context()); err != nil || healed.Proven || !strings.Contains(healed.What, "node-2 is off") {
				t.Errorf("healed %+v, %v", healed, err)
			}
			c.stubborn = false
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("healed %+v, %v", healed, err)
			}
		})
		bubble("already off", func(t *testing.T, c *fakeCluster, p Params) {
			c.nodes[1].power(false)
			c.nodes[2].power(false)
			i, err := Reboot.Inject(t.Context(), c, target, p)
			if err != nil || i.Proof().Proven || c.asked != 0 || !strings.Contains(i.Proof().What, "nothing was injected") {
				t.Fatalf("%v, %v", i, err)
			}
			if _, err := i.Heal(t.Context()); err != nil || !c.nodes[1].off {
				t.Errorf("healing touched what it did not break: %v", err)
			}
		})
	}
}

func TestRebootCheck(t *testing.T) {
	c := newFake(framework.APIServer)
	for off, want := range map[string]string{"5ms": "from 10ms to 10m", "1h": "from 10ms to 10m", "8m": "shorter than the time to live, 5m0s"} {
		err := Reboot.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"off": off}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", off, err)
		}
	}
	if err := Reboot.Check(c, Target{Asked: "zone/"}, Params{TTL: ttl}); err == nil {
		t.Error("a target without a node was accepted")
	}
}
