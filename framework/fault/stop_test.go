package fault

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestStop(t *testing.T) {
	proofs{
		fault:   Stop,
		target:  component("node-1", framework.APIServer),
		broken:  func(c *fakeCluster) bool { return state(c, 0, framework.APIServer).PID == 0 },
		already: func(c *fakeCluster) { c.nodes[0].processes[framework.APIServer].PID = 0 },
	}.run(t)
}

// killingCluster ends a component by SIGKILL in the end.
type killingCluster struct{ *fakeCluster }

type killingNode struct{ *fakeNode }

func (c killingCluster) Nodes() (all []framework.Node) {
	for _, n := range c.nodes {
		all = append(all, killingNode{n})
	}
	return all
}

func (n killingNode) Stop(_ context.Context, c framework.Component, hold time.Duration) error {
	return n.end(c, killedExit, hold)
}

// TestStopIsOrderly: a stop reports if the component had to be killed.
func TestStopIsOrderly(t *testing.T) {
	for _, restart := range []string{"false", "true"} {
		synctest.Test(t, func(t *testing.T) {
			c := killingCluster{newFake(framework.APIServer)}
			i, err := Stop.Inject(t.Context(), c, component("node-1", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"restart": restart}})
			if err != nil || !i.Proof().Proven || !i.Proof().Killed || !strings.Contains(i.Proof().What, "was killed") {
				t.Errorf("restart=%s: %+v, %v", restart, i.Proof(), err)
			}
			if i, err = Kill.Inject(t.Context(), c, component("node-2", framework.APIServer), Params{TTL: ttl}); err != nil || !i.Proof().Proven || i.Proof().Killed {
				t.Errorf("a kill: %+v, %v", i.Proof(), err)
			}
		})
	}
}
