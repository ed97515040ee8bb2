package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// leaveSilent leaves a node without a process.
func leaveSilent(n *fakeNode) {
	for _, p := range n.processes {
		p.PID, p.State = 0, ""
	}
}

func testClockFault(t *testing.T, f *Fault, values map[string]string) {
	for name, target := range map[string]Target{"node": wholeTarget("node-3"), "component": component("node-3", framework.ControllerManager)} {
		t.Run(name, func(t *testing.T) {
			proofs{
				fault: f, target: target, params: values,
				broken:  func(c *fakeCluster) bool { return len(c.nodes[2].trust.shifts) > 0 },
				already: func(c *fakeCluster) { leaveSilent(c.nodes[2]) },
			}.run(t)
		})
	}
	inBubble(t, "what the memory says is no proof alone", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].trust.off = 10 * time.Second
		i, err := f.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl, Values: values})
		if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, "ahead, not") {
			t.Fatalf("%+v, %v", i.Proof(), err)
		}
	})
	inBubble(t, "not on this machine", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].trust.noClocks = errors.New("clocks can be shifted on amd64 only")
		err := f.Check(c, wholeTarget("node-3"), Params{TTL: ttl, Values: values})
		if !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), "amd64 only") {
			t.Errorf("got %v", err)
		}
	})
	inBubble(t, "a component of the node that serves no time", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].serves = map[framework.Component][]framework.ServingEndpoint{framework.Scheduler: nil}
		i, err := f.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl, Values: values})
		if err != nil || !i.Proof().Proven || !strings.Contains(i.Proof().What, "in the memory of kube-scheduler, which serves no time, its clock is moved") {
			t.Fatalf("%v, %v", i, err)
		}
		if r, err := c.nodes[2].ReadClock(t.Context(), framework.Scheduler); err != nil || r.Untouched {
			t.Errorf("its clock is not moved: %+v, %v", r, err)
		}
		c.stubborn = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("healed by nothing: %+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		if err := f.Check(c, component("node-3", framework.Scheduler), Params{TTL: ttl, Values: values}); err == nil || !strings.Contains(err.Error(), "the time of kube-scheduler cannot be read") {
			t.Errorf("itself: %v", err)
		}
		for _, component := range c.nodes[2].runs {
			c.nodes[2].serves[component] = nil
		}
		if err := f.Check(c, wholeTarget("node-3"), Params{TTL: ttl, Values: values}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("a node on which nothing serves the time: %v", err)
		}
	})
	inBubble(t, "only what tells the time", func(t *testing.T, c *fakeCluster) {
		if err := f.Check(c, component("node-3", framework.NodeAgent), Params{TTL: ttl, Values: values}); err == nil {
			t.Error("the clock of a node agent was accepted")
		}
	})
}

// testMoves injects a fault and heals it.
func testMoves(t *testing.T, f *Fault, values map[string]string) {
	inBubble(t, fmt.Sprint(values), func(t *testing.T, c *fakeCluster) {
		i, err := f.Inject(t.Context(), c, component("node-3", framework.Scheduler), Params{TTL: ttl, Values: values})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%+v, %v", i.Proof(), err)
		}
		time.Sleep(time.Second)
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
		t.Logf("%s / %s", i.Proof().What, healed.What)
	})
}

func TestClockJump(t *testing.T) {
	t.Parallel()
	testClockFault(t, ClockJump, nil)
	for _, offset := range []string{"1s", "-1s", "+1h30m", "-87600h"} {
		testMoves(t, ClockJump, map[string]string{"offset": offset})
	}
	inBubble(t, "a component that is down shows nothing", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].processes[framework.Scheduler].PID = 0
		i, err := ClockJump.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven || strings.Contains(i.Proof().What, "kube-scheduler") {
			t.Fatalf("%+v, %v", i.Proof(), err)
		}
	})
	inBubble(t, "dates that do not move are no proof", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].trust.lies = true
		i, err := ClockJump.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl})
		if err != nil || i.Proof().Proven {
			t.Fatalf("%+v, %v", i.Proof(), err)
		}
	})
	inBubble(t, "offsets", func(t *testing.T, c *fakeCluster) {
		for _, bad := range []string{"60", "0s", "500ms", "-999ms", "87601h", "-87601h", "soon"} {
			err := ClockJump.Check(c, wholeTarget("node-3"), Params{TTL: ttl, Values: map[string]string{"offset": bad}})
			if err == nil || !strings.Contains(err.Error(), `fault clock-jump: parameter offset="`+bad+`"`) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

func TestClocksOverlap(t *testing.T) {
	for _, firstHealed := range []int{0, 1} {
		inBubble(t, "", func(t *testing.T, c *fakeCluster) {
			var in [2]Injection
			var err error
			if in[0], err = ClockJump.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl, Values: map[string]string{"offset": "-90s"}}); err != nil {
				t.Fatal(err)
			}
			target := component("node-3", framework.Scheduler)
			if in[1], err = ClockDrift.Inject(t.Context(), c, target, Params{TTL: ttl, Values: map[string]string{"rate": "10%"}}); err != nil {
				t.Fatal(err)
			}
			for i, x := range in {
				if !x.Proof().Proven {
					t.Fatalf("%d: %+v", i, x.Proof())
				}
			}
			time.Sleep(time.Minute)
			for _, i := range []int{firstHealed, 1 - firstHealed} {
				if healed, err := in[i].Heal(t.Context()); err != nil || !healed.Proven {
					t.Errorf("%d: %+v, %v", i, healed, err)
				}
			}
			if len(c.nodes[2].trust.shifts) > 0 {
				t.Error("a shift is left")
			}
		})
	}
}
