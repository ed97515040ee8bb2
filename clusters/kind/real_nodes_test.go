package kind

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// testNodes adds a node, breaks it and removes it, and replaces one that has lost its power
// permanently.
func testNodes(t *testing.T, c *Cluster) {
	add := func() framework.Node {
		t.Helper()
		began := time.Now()
		n, err := c.AddNode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s (%s) added after %s", n.Name(), n.Address(), time.Since(began).Round(time.Second))
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	remove := func(name string) {
		t.Helper()
		began := time.Now()
		if err := c.RemoveNode(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s removed after %s", name, time.Since(began).Round(time.Second))
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		there, err := c.cli.List(t.Context(), clusterLabel+"="+c.Name())
		if err != nil || slices.Contains(there, name) {
			t.Errorf("containers: %v, %v", there, err)
		}
	}
	had := len(c.Nodes())
	first := add()
	if members, err := c.etcdMembers().List(t.Context()); err != nil || len(members) != had+1 || members[had].IsLearner {
		t.Errorf("%v, %v", members, err)
	}
	board := fault.NewBoard(c, func(fault.Entry) {})
	for _, name := range []string{"kill", "pause"} {
		on := map[string]string{"kill": "etcd/", "pause": "node/"}[name] + first.Name()
		e, err := board.Inject(t.Context(), name, on, fault.Params{TTL: time.Minute})
		if err != nil || !e.Effect.Proven {
			t.Fatalf("%+v, %v", e, err)
		}
		if healed, err := board.Heal(t.Context(), e.ID); err != nil || !healed[0].Healing.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
	}
	remove(first.Name())

	lost := c.controlPlane()[0] // kind's own first one, too
	if err := lost.PowerOff(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(t.Context()); err == nil {
		t.Error("a node is added while a member is down")
	} else {
		t.Log(err)
	}
	remove(lost.name)
	second := add()
	if second.Name() == first.Name() || second.Address() == first.Address() || second.Address() == lost.address {
		t.Errorf("%s %s is not new", second.Name(), second.Address())
	}
	if len(c.Nodes()) != had {
		t.Errorf("%d nodes", len(c.Nodes()))
	}
}
