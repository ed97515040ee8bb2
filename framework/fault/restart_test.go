package fault

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestRestart(t *testing.T) {
	for _, sig := range []string{"TERM", "KILL"} {
		for _, c := range []framework.Component{framework.APIServer, framework.NodeAgent} {
			t.Run(sig+" "+string(c), func(t *testing.T) { testRestart(t, c, Params{TTL: ttl, Values: map[string]string{"signal": sig}}) })
		}
	}
}

func testRestart(t *testing.T, comp framework.Component, p Params) {
	bubble := func(name string, f func(t *testing.T, c *fakeCluster, old framework.Process)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer)
				time.Sleep(time.Minute)
				f(t, c, state(c, 1, comp))
			})
		})
	}
	target := component("node-2", comp)
	bubble("proof and healing", func(t *testing.T, c *fakeCluster, old framework.Process) {
		i, err := Restart.Inject(t.Context(), c, target, p)
		if err != nil {
			t.Fatal(err)
		}
		now := state(c, 1, comp)
		if proof := i.Proof(); !proof.Proven || now.Ended() || same(now, old) || !strings.Contains(proof.What, now.ID()) || !strings.Contains(proof.What, old.ID()) {
			t.Fatalf("%+v; now %+v", proof, now)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !same(now, state(c, 1, comp)) {
			t.Errorf("healed %+v, %v", healed, err)
		}
	})
	bubble("no effect, no proof", func(t *testing.T, c *fakeCluster, _ framework.Process) {
		c.inert = true
		i, err := Restart.Inject(t.Context(), c, target, p)
		if err != nil || i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("what was never restarted is proven to be healed: %+v, %v", healed, err)
		}
	})
	bubble("a process that does not come back", func(t *testing.T, c *fakeCluster, _ framework.Process) {
		c.stubborn = true
		i, err := Restart.Inject(t.Context(), c, target, p)
		if err != nil || i.Proof().Proven || state(c, 1, comp).PID != 0 {
			t.Fatalf("%v, %v", i, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
	bubble("dead man", func(t *testing.T, c *fakeCluster, _ framework.Process) {
		c.stubborn = true // no process is left to start it
		if _, err := Restart.Inject(t.Context(), c, target, p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl + time.Second)
		if state(c, 1, comp).PID == 0 {
			t.Error("it is down for longer than the time to live")
		}
	})
	bubble("not running", func(t *testing.T, c *fakeCluster, _ framework.Process) {
		c.nodes[1].processes[comp].PID = 0
		i, err := Restart.Inject(t.Context(), c, target, p)
		if err != nil || i.Proof().Proven || c.asked != 0 {
			t.Errorf("%v, %v, asked %d times", i, err, c.asked)
		}
	})
	bubble("context end", func(t *testing.T, c *fakeCluster, _ framework.Process) {
		c.inert = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if i, err := Restart.Inject(ctx, c, target, p); err != nil || i.Proof().Proven {
			t.Errorf("%v, %v", i, err)
		}
	})
}

// kubeletCluster has kubelets that back off: they leave a component down that was held down until now.
type kubeletCluster struct{ *fakeCluster }

type kubeletNode struct{ *fakeNode }

func (c kubeletCluster) Nodes() (all []framework.Node) {
	for _, n := range c.nodes {
		all = append(all, kubeletNode{n})
	}
	return all
}

func (n kubeletNode) Start(ctx context.Context, c framework.Component) error {
	n.c.mu.Lock()
	p := n.processes[c]
	held := p.Held
	p.Held = false
	n.c.mu.Unlock()
	if held {
		return nil
	}
	return n.fakeNode.Start(ctx, c)
}

// TestRestartBackOff: a second order to start a component ends the back-off of its kubelet.
func TestRestartBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		began := time.Now()
		i, err := Restart.Inject(t.Context(), kubeletCluster{c}, component("node-2", framework.APIServer), Params{TTL: ttl})
		if took := time.Since(began); err != nil || !i.Proof().Proven || took < firstBackOff || took > firstBackOff+2*time.Second {
			t.Errorf("%+v after %s, %v", i.Proof(), took, err)
		}
	})
}

// TestRestartIsOrderly: a restart by SIGTERM reports if the component had to be killed.
func TestRestartIsOrderly(t *testing.T) {
	for signal, killed := range map[string]bool{"TERM": true, "KILL": false} {
		synctest.Test(t, func(t *testing.T) {
			c := killingCluster{newFake(framework.APIServer)}
			i, err := Restart.Inject(t.Context(), c, component("node-2", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"signal": signal}})
			if err != nil {
				t.Fatal(err)
			}
			if proof := i.Proof(); !proof.Proven || proof.Killed != killed || strings.Contains(proof.What, "was killed") != killed {
				t.Errorf("signal=%s: %+v", signal, proof)
			}
		})
	}
}

func TestRestartCheck(t *testing.T) {
	c := newFake(framework.APIServer)
	err := Restart.Check(c, component("node-1", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"signal": "HUP"}})
	if err == nil || !strings.Contains(err.Error(), "TERM, KILL") {
		t.Error(err)
	}
	err = Restart.Check(c, component("node-1", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"restart": "true"}})
	if err == nil || !strings.Contains(err.Error(), "the fault accepts signal") {
		t.Error(err)
	}
}
