package fault

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestPowerLoss(t *testing.T) {
	proofs{
		fault:   PowerOff,
		target:  wholeTarget("node-2"),
		params:  map[string]string{"unsynced": "drop"},
		broken:  func(c *fakeCluster) bool { return c.nodes[1].off },
		already: func(c *fakeCluster) { c.nodes[1].power(false) },
	}.run(t)
	for unsynced, losses := range map[string]int{"": 0, "keep": 0, "drop": 1} {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.Etcd, framework.APIServer)
			time.Sleep(time.Minute)
			i, err := PowerOff.Inject(t.Context(), c, wholeTarget("node-2"), Params{TTL: ttl, Values: map[string]string{"unsynced": unsynced}})
			if err != nil || !i.Proof().Proven || c.nodes[1].disk.lost != losses {
				t.Fatalf("unsynced=%s: %v, %v; lost %d times", unsynced, i, err, c.nodes[1].disk.lost)
			}
			if told := strings.Contains(i.Proof().What, "dropped unsynced changes to 1 files (2 bytes) and to 3 directory entries"); told != (losses > 0) {
				t.Errorf("unsynced=%s: %s", unsynced, i.Proof().What)
			}
		})
	}
	c := newFake(framework.APIServer)
	if err := PowerOff.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"unsynced": "maybe"}}); err == nil || !strings.Contains(err.Error(), "one of keep, drop") {
		t.Errorf("unsynced=maybe: %v", err)
	}
	var missing *MissingAbility
	if err := PowerOff.Check(plainDisks{c}, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"unsynced": "drop"}}); !errors.As(err, &missing) || missing.Ability != "PowerLoser" {
		t.Errorf("a disk that cannot forget: %v", err)
	}
	if err := PowerOff.Check(plainDisks{c}, wholeTarget("node-1"), Params{TTL: ttl}); err != nil {
		t.Errorf("a disk that need not forget: %v", err)
	}
}

// If no disk had anything to lose, only power was lost: a member that does not sync would have
// kept its data, too.
func TestPowerLossOfNothing(t *testing.T) {
	for _, tc := range []struct {
		unsynced string
		synced   int // nodes whose disks have nothing to lose
		proven   bool
	}{{"drop", 3, false}, {"drop", 2, true}, {"keep", 3, true}} {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.Etcd, framework.APIServer)
			time.Sleep(time.Minute)
			var names []string
			for i, n := range c.nodes {
				n.disk.synced = i < tc.synced
				names = append(names, n.name)
			}
			i, err := PowerOff.Inject(t.Context(), c, Target{Asked: "nodes", Nodes: names}, Params{TTL: ttl, Values: map[string]string{"unsynced": tc.unsynced}})
			if err != nil || i.Proof().Proven != tc.proven || strings.Contains(i.Proof().What, "no disk had") == tc.proven {
				t.Errorf("%+v: %+v, %v", tc, i.Proof(), err)
			}
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
				t.Errorf("%+v, %v", healed, err)
			}
		})
	}
}

// plainDisks has nodes with power switches and disks that cannot fail.
type plainDisks struct{ *fakeCluster }

type plainNode struct {
	framework.Node
	framework.PowerSwitch
	framework.ProcessReporter
}

func (c plainDisks) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.nodes {
		all = append(all, plainNode{n, n, n})
	}
	return all
}
