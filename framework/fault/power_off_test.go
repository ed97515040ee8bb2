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

func TestPowerOff(t *testing.T) {
	proofs{
		fault:   PowerOff,
		target:  wholeTarget("node-1"),
		broken:  func(c *fakeCluster) bool { on, _ := c.nodes[0].Powered(context.Background()); return !on },
		already: func(c *fakeCluster) { c.nodes[0].power(false) },
	}.run(t)
}

func TestPowerOffZone(t *testing.T) {
	off := func(c *fakeCluster) bool { return c.nodes[1].off || c.nodes[2].off }
	proofs{
		fault:   PowerOff,
		target:  zone("b", "node-2", "node-3"),
		broken:  off,
		already: func(c *fakeCluster) { c.nodes[1].power(false); c.nodes[2].power(false) },
		calls:   2,
	}.run(t)
	// A node that was off before is not turned on by healing.
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		c.nodes[2].power(false)
		i, err := PowerOff.Inject(t.Context(), c, zone("b", "node-2", "node-3"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven || !c.nodes[1].off || !strings.Contains(i.Proof().What, "node-3 was already powered off") {
			t.Fatalf("%v, %v", i, err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || c.nodes[1].off || !c.nodes[2].off {
			t.Errorf("healed %+v, %v; off: %v, %v", healed, err, c.nodes[1].off, c.nodes[2].off)
		}
	})
}

// lyingNode says that it is off while its processes live.
type lyingNode struct {
	*fakeNode
	mute bool // and nothing on it can be queried
}

func (n lyingNode) Powered(context.Context) (bool, error) { return n.c.asked == 0, nil }

func (n lyingNode) Process(ctx context.Context, c framework.Component) (framework.Process, error) {
	if n.mute {
		return framework.Process{}, errors.New("no route to host")
	}
	return n.fakeNode.Process(ctx, c)
}

type lyingCluster struct {
	*fakeCluster
	mute bool
}

func (c lyingCluster) Nodes() []framework.Node {
	return []framework.Node{lyingNode{c.nodes[0], c.mute}}
}

// waryCluster refuses to cut the power of several nodes at the same time.
type waryCluster struct{ *fakeCluster }

func (waryCluster) CheckPowerOff(nodes []string) error {
	if len(nodes) > 1 {
		return framework.Untouched{Err: &MissingAbility{Ability: "consent", Of: "cluster c", For: "to cut the power"}}
	}
	return nil
}

// TestPowerOffRefused: what the cluster refuses is known before any node loses power.
func TestPowerOffRefused(t *testing.T) {
	c := waryCluster{newFake(framework.APIServer)}
	for _, f := range []*Fault{PowerOff, Reboot} {
		if err := f.Check(c, wholeTarget("node-1"), Params{TTL: ttl}); err != nil {
			t.Errorf("%s of one node: %v", f.Name, err)
		}
		if err := f.Check(c, zone("b", "node-2", "node-3"), Params{TTL: ttl}); !errors.As(err, new(*MissingAbility)) {
			t.Errorf("%s of two nodes: %v", f.Name, err)
		}
	}
}

// The switch's own word is not enough.
func TestPowerOffSecondWitness(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := lyingCluster{newFake(framework.APIServer), mute}
			time.Sleep(time.Minute)
			c.inert = true
			i, err := PowerOff.Inject(t.Context(), c, wholeTarget("node-1"), Params{TTL: ttl})
			if err != nil || i.Proof().Proven {
				t.Errorf("mute %v: a node that lives is proven off: %v, %v", mute, i, err)
			}
			if err == nil {
				t.Log(i.Proof().What)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := lyingCluster{newFake(framework.APIServer), true}
		i, err := PowerOff.Inject(t.Context(), c, wholeTarget("node-1"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Errorf("off and silent, but not proven: %v, %v", i, err)
		}
	})
}
