package fault

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestIsolate(t *testing.T) {
	proofs{
		fault:   Isolate,
		target:  wholeTarget("node-2"),
		broken:  func(c *fakeCluster) bool { return c.severed("harness", "node-2", 6443) },
		already: func(c *fakeCluster) { c.nodes[1].power(false) },
	}.run(t)
}

func TestIsolateLinks(t *testing.T) {
	c := newFake(framework.APIServer)
	x, err := impairmentOf(Isolate, c, wholeTarget("node-2"), map[string]string{"keep": "harness, workers"})
	if err != nil {
		t.Fatal(err)
	}
	c.cuts = []*fakeCut{{links: x.links, is: x.asked, began: time.Now()}}
	for _, party := range c.Parties() {
		want := party != "node-2" && party != "harness" && party != "workers"
		if got := c.severed("node-2", party, 1); got != want {
			t.Errorf("node-2 to %s: cut %v", party, got)
		}
	}
	if len(x.links) != 6 || c.severed("node-1", "node-3", 1) {
		t.Errorf("links %v", x.links)
	}
	for keep, want := range map[string]string{
		"node-2":                                 "node-1, node-3",
		"moon":                                   `"moon" is not one of`,
		"harness,":                               `"" is not one of`,
		"node-1,node-3,balancer,workers,harness": "nothing to cut",
		"node-1, node-3,balancer,workers, harness": "nothing to cut",
	} {
		err := Isolate.Check(c, wholeTarget("node-2"), Params{TTL: ttl, Values: map[string]string{"keep": keep}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("keep=%s: %v", keep, err)
		}
	}
	if err := Isolate.Check(c, component("node-1", framework.Etcd), Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "the fault accepts node, zone") {
		t.Errorf("component: %v", err)
	}
}

// A node that goes down while it is being cut off leaves packets dropped that
// its peers sent, which prove nothing.
func TestIsolateDiesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		c.onCut = func(_ []framework.Link, begins bool) {
			if begins {
				c.nodes[1].power(false)
			}
		}
		i := proofs{fault: Isolate, target: wholeTarget("node-2")}.inject(t, c)
		if i.Proof().Proven || !strings.Contains(i.Proof().What, "packets dropped") || !strings.Contains(i.Proof().What, "powered off") {
			t.Errorf("%+v", i.Proof())
		}
	})
}

// The node can be reached all the time, so that the counter alone reports whether
// packets are still dropped.
func TestIsolateStillDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		i := proofs{fault: Isolate, target: wholeTarget("node-2"), params: map[string]string{"keep": "harness"}}.inject(t, c)
		c.stubborn = true
		healed, err := i.Heal(t.Context())
		if err != nil || healed.Proven || !strings.Contains(healed.What, "still dropped") {
			t.Errorf("%+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err = i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// A node without any traffic to check gives no proof.
func TestIsolateNothingToReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Scheduler)
		i := proofs{fault: Isolate, target: wholeTarget("node-2")}.inject(t, c)
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// The nodes of a zone are cut off together, and still see each other.
func TestIsolateZone(t *testing.T) {
	zone := Target{Asked: "zone/b", Nodes: []string{"node-2", "node-3"}}
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		i := proofs{fault: Isolate, target: zone}.inject(t, c)
		if !i.Proof().Proven || !c.severed("node-1", "node-2", 1) || !c.severed("harness", "node-3", 1) || c.severed("node-2", "node-3", 1) {
			t.Errorf("%+v", i.Proof())
		}
		c.stubborn = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "node-2") || !strings.Contains(healed.What, "node-3") {
			t.Errorf("%+v, %v", healed, err)
		}
		c.nodes[2].power(false)
		if i := (proofs{fault: Isolate, target: zone}).inject(t, c); i.Proof().Proven || !strings.Contains(i.Proof().What, "node-3 is powered off") {
			t.Errorf("%+v", i.Proof())
		}
	})
}
