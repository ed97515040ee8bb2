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

func TestDiskWipe(t *testing.T) {
	diskRefusals(t, DiskWipe, map[string]string{"file=db": "the fault accepts none"})
	target := component("node-2", framework.Etcd)
	bubble := func(name string, f func(*testing.T, *fakeCluster)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.Etcd)
				time.Sleep(time.Minute)
				f(t, c)
			})
		})
	}
	inject := func(t *testing.T, c *fakeCluster) Injection {
		t.Helper()
		i, err := DiskWipe.Inject(t.Context(), c, target, Params{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	bubble("proof and healing", func(t *testing.T, c *fakeCluster) {
		old := state(c, 1, framework.Etcd)
		i := inject(t, c)
		between := state(c, 1, framework.Etcd)
		if !i.Proof().Proven || !badDiskNow(c) || between.Ended() || same(between, old) {
			t.Fatalf("%+v; the member is %+v", i.Proof(), between)
		}
		healed, err := i.Heal(t.Context())
		now := state(c, 1, framework.Etcd)
		if err != nil || !healed.Proven || badDiskNow(c) || now.Ended() || now.Held || same(now, between) {
			t.Fatalf("%+v, %v; the member is %+v", healed, err, now)
		}
	})
	bubble("no effect, no proof", func(t *testing.T, c *fakeCluster) {
		c.inert = true
		if i := inject(t, c); i.Proof().Proven {
			t.Errorf("proven: %+v", i.Proof())
		}
	})
	bubble("the member ends but keeps its data", func(t *testing.T, c *fakeCluster) {
		c.nodes[1].disk.faults = map[string]*fakeDiskFault{}
		keeps := keepingCluster{c}
		i, err := DiskWipe.Inject(t.Context(), keeps, target, Params{TTL: ttl})
		if err != nil || i.Proof().Proven {
			t.Errorf("%v, %v", i, err)
		}
	})
	bubble("no healing, no proof", func(t *testing.T, c *fakeCluster) {
		i := inject(t, c)
		c.stubborn = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
	bubble("already so", func(t *testing.T, c *fakeCluster) {
		first := inject(t, c)
		if i := inject(t, c); i.Proof().Proven || !strings.Contains(i.Proof().What, "nothing was injected") {
			t.Errorf("%+v", i.Proof())
		}
		if healed, err := first.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		noEtcd(c)
		if i := inject(t, c); i.Proof().Proven || badDiskNow(c) {
			t.Errorf("%+v", i.Proof())
		}
	})
	bubble("held down by another fault in the meantime", func(t *testing.T, c *fakeCluster) {
		c.before = func(n *fakeNode) {
			c.before = nil
			if err := n.Kill(t.Context(), framework.Etcd, time.Hour); err != nil {
				t.Error(err)
			}
		}
		i, err := DiskWipe.Inject(t.Context(), c, target, Params{TTL: ttl})
		if i != nil || !errors.Is(err, framework.ErrNothingDone) || !state(c, 1, framework.Etcd).Held || badDiskNow(c) {
			t.Errorf("%v, %v; the member is %+v", i, err, state(c, 1, framework.Etcd))
		}
	})
	bubble("dead man", func(t *testing.T, c *fakeCluster) {
		inject(t, c)
		time.Sleep(ttl + time.Second)
		if now := state(c, 1, framework.Etcd); badDiskNow(c) || now.Ended() {
			t.Errorf("the fault outlived its time to live; the member is %+v", now)
		}
	})
}

// keepingCluster has disks that report a wipe without doing it.
type keepingCluster struct{ *fakeCluster }

type keepingNode struct{ *fakeNode }

func (c keepingCluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.nodes {
		all = append(all, keepingNode{n})
	}
	return all
}

func (keepingNode) WipeDisk(context.Context, time.Duration) (string, error) { return "1", nil }

func (keepingNode) RestoreDisk(context.Context, string) error { return nil }
