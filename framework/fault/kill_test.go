package fault

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestKill(t *testing.T) {
	for _, c := range []framework.Component{framework.APIServer, framework.Scheduler, framework.NodeAgent} {
		t.Run(string(c), func(t *testing.T) {
			proofs{
				fault:  Kill,
				target: component("node-2", c),
				broken: func(f *fakeCluster) bool { return state(f, 1, c).PID == 0 },
				already: func(f *fakeCluster) {
					f.nodes[1].processes[c].PID = 0
				},
			}.run(t)
		})
	}
}

func TestKillRestart(t *testing.T) {
	var old framework.Process
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		old = state(c, 1, framework.APIServer)
		p := proofs{fault: Kill, target: component("node-2", framework.APIServer), params: map[string]string{"restart": "true"}}
		i := p.inject(t, c)
		now := state(c, 1, framework.APIServer)
		if !i.Proof().Proven || now.PID == 0 || now.PID == old.PID || !strings.Contains(i.Proof().What, "restarted it as "+now.ID()) {
			t.Fatalf("%+v; now %+v", i.Proof(), now)
		}
		if latency := i.Proof().Effect.Sub(i.Proof().Called); latency >= watcherPause {
			t.Errorf("the effect is that the process is gone, not that there is a new one: %s", latency)
		}
		c.stubborn = true // the watcher alone must do
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		p := proofs{fault: Kill, target: component("node-2", framework.APIServer), params: map[string]string{"restart": "true"}}
		c.inert = true
		if i := p.inject(t, c); i.Proof().Proven {
			t.Errorf("an inert kill is proven: %+v", i.Proof())
		}
		// A watcher that does not restart: the kill is real, healing is not,
		// but nothing stays broken.
		c.inert = false
		i := p.inject(t, c)
		c.nodes[1].processes[framework.APIServer].hold.Stop()
		c.nodes[1].end(framework.APIServer, "", time.Hour)     //nolint:errcheck // it may be down
		c.nodes[1].processes[framework.APIServer].Held = false // by no fault
		healed, err := i.Heal(t.Context())
		if !i.Proof().Proven || err != nil || healed.Proven || state(c, 1, framework.APIServer).PID == 0 {
			t.Errorf("a watcher that does not restart: injected %+v, healed %+v, %v", i.Proof(), healed, err)
		}
	})
}

// A component that is not held down although that was requested does not stay away, which the
// fault promises.
func TestKillNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Scheduler)
		target := component("node-1", framework.Scheduler)
		e, err := requestOf(t, Kill, c, target, nil).end(false)
		if err != nil {
			t.Fatal(err)
		}
		old := state(c, 0, framework.Scheduler)
		if err := c.nodes[0].Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * watcherPause)
		if held, seen := e.gone(old, new(bool))(t.Context()); held || !strings.Contains(seen, "not held down") {
			t.Errorf("%v, %s", held, seen)
		}
	})
}

// A component that may run only where a lock is held stands by once another node has taken the lock,
// which heals the fault, unless it is held down or runs nowhere.
func TestHealedToStandBy(t *testing.T) {
	scheduler := component("node-2", framework.Scheduler)
	for _, tc := range []struct {
		fault  *Fault
		target Target
		params map[string]string
	}{
		{Kill, scheduler, nil},
		{Kill, scheduler, map[string]string{"restart": "true"}},
		{Stop, scheduler, nil},
		{Restart, scheduler, nil},
		{CrashLoop, scheduler, map[string]string{"after": "500ms"}},
		{Reboot, wholeTarget("node-2"), nil},
	} {
		t.Run(tc.fault.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer, framework.Scheduler)
				time.Sleep(time.Minute)
				p := c.nodes[1].processes[framework.Scheduler]
				takeLock := func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					p.elsewhere = true
				}
				if tc.fault != CrashLoop { // which is proven by its second start
					takeLock()
				}
				i := proofs{fault: tc.fault, target: tc.target, params: tc.params}.inject(t, c)
				if !i.Proof().Proven {
					t.Fatalf("%+v", i.Proof())
				}
				takeLock()
				time.Sleep(5 * time.Second)
				if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "stand") {
					t.Errorf("%+v, %v", healed, err)
				}
			})
		})
	}
	for name, spoil := range map[string]func(*fakeCluster){
		"held down":    func(c *fakeCluster) { c.stubborn = true },
		"runs nowhere": func(c *fakeCluster) { c.nodes[0].power(false); c.nodes[2].power(false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer, framework.Scheduler)
				p := c.nodes[1].processes[framework.Scheduler]
				i := proofs{fault: Kill, target: scheduler}.inject(t, c)
				c.mu.Lock()
				p.elsewhere, p.Standby = true, true
				spoil(c)
				c.mu.Unlock()
				if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
					t.Errorf("%+v, %v", healed, err)
				}
			})
		})
	}
}

func TestKillCheck(t *testing.T) {
	c := newFake(framework.APIServer, framework.Etcd)
	for name, refused := range map[string]struct {
		target Target
		params map[string]string
		want   string
	}{
		"restart":     {component("node-1", framework.APIServer), map[string]string{"restart": "yes"}, "true or false"},
		"whole node":  {wholeTarget("node-1"), nil, "the fault accepts component"},
		"not there":   {component("node-1", framework.Kwok), nil, "does not run kwok"},
		"unknown":     {component("node-1", framework.APIServer), map[string]string{"re": ""}, "the fault accepts restart"},
		"etcd":        {component("node-1", framework.Etcd), nil, "EtcdAccess"},
		"no balancer": {Target{Asked: "balancer", Host: "balancer", Component: framework.LoadBalancer}, nil, "ability"},
	} {
		err := Kill.Check(c, refused.target, Params{TTL: time.Second, Values: refused.params})
		if err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
