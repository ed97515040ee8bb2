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

func TestPause(t *testing.T) {
	proofs{
		fault:   Pause,
		target:  wholeTarget("node-1"),
		broken:  func(c *fakeCluster) bool { return c.nodes[0].paused },
		already: func(c *fakeCluster) { c.nodes[0].paused = true },
	}.run(t)
}

func TestPauseZone(t *testing.T) {
	proofs{
		fault:   Pause,
		target:  zone("b", "node-2", "node-3"),
		broken:  func(c *fakeCluster) bool { return c.nodes[1].paused || c.nodes[2].paused },
		already: func(c *fakeCluster) { c.nodes[1].paused = true; c.nodes[2].power(false) },
		calls:   2,
	}.run(t)
	// A node that was paused before continues when the fault that paused it is healed.
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		c.nodes[2].paused = true
		i, err := Pause.Inject(t.Context(), c, zone("b", "node-2", "node-3"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven || !strings.Contains(i.Proof().What, "node-3 was already paused") {
			t.Fatalf("%v, %v", i, err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || c.nodes[1].paused || !c.nodes[2].paused {
			t.Errorf("healed %+v, %v", healed, err)
		}
	})
}

// A node that loses power while it is paused is the other fault's.
func TestPausePower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		i := proofs{fault: Pause, target: wholeTarget("node-2")}.inject(t, c)
		if err := c.nodes[1].PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !c.nodes[1].off || !strings.Contains(healed.What, "is powered off") {
			t.Errorf("healed %+v, %v", healed, err)
		}
	})
}

// talkingNode says that it is paused while its API server answers.
type talkingNode struct{ *fakeNode }

func (talkingNode) Paused(context.Context) (bool, error) { return true, nil }

type talkingCluster struct {
	*fakeCluster
	mute bool // and is not an entrance
}

func (c talkingCluster) Nodes() []framework.Node { return []framework.Node{talkingNode{c.nodes[0]}} }

func (c talkingCluster) Entrances() []framework.Entrance {
	if c.mute {
		return nil
	}
	return c.fakeCluster.Entrances()
}

// The provider's own word is not enough.
func TestPauseSecondWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := talkingCluster{fakeCluster: newFake(framework.APIServer)}
		time.Sleep(time.Minute)
		s, err := requestOf(t, Pause, c, wholeTarget("node-1"), nil).suspended()
		if err != nil {
			t.Fatal(err)
		}
		if held, seen := s[0].still(t.Context()); held || !strings.Contains(seen, "its API server answers") {
			t.Errorf("%t, %s", held, seen)
		}
		c.mute = true
		if err := Pause.Check(c, wholeTarget("node-1"), Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "silence") {
			t.Error(err)
		}
		var missing *MissingAbility
		if err := Pause.Check(bareCluster{c}, wholeTarget("node-1"), Params{TTL: ttl}); !errors.As(err, &missing) || missing.Ability != "Pauser" {
			t.Error(err)
		}
	})
}
