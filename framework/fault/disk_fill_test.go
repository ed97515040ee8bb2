package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fillCluster has nodes whose file systems can be filled, and no disks that can fail.
type fillCluster struct {
	*fakeCluster
	shared bool // the file systems hold more than etcd's data
}

func (c fillCluster) Nodes() (all []framework.Node) {
	for _, n := range c.fakeCluster.nodes {
		all = append(all, fillNode{n, n, n, c.shared})
	}
	return all
}

type fillNode struct {
	framework.Node
	framework.ProcessReporter
	fake   *fakeNode
	shared bool
}

func (n fillNode) CheckFill(context.Context) error {
	if n.shared {
		return fmt.Errorf("it holds /var as well: %w", errors.ErrUnsupported)
	}
	return nil
}

func (n fillNode) FillDisk(ctx context.Context, free int64, ttl time.Duration) (string, error) {
	return n.fake.FaultDisk(ctx, framework.DiskFault{Full: true, Free: free}, ttl)
}

func (n fillNode) EmptyDisk(ctx context.Context, handle string) error {
	return n.fake.RestoreDisk(ctx, handle)
}

func (n fillNode) ProbeDisk(ctx context.Context) (framework.DiskProbe, error) {
	return n.fake.ProbeDisk(ctx)
}

// filling injects disk-full into a cluster whose members have run for a while.
func filling(t *testing.T, values map[string]string, then func(*testing.T, fillCluster, Injection, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := fillCluster{fakeCluster: newFake(framework.Etcd)}
		time.Sleep(time.Minute)
		i, err := DiskFull.Inject(t.Context(), c, component("node-2", framework.Etcd), Params{TTL: ttl, Values: values})
		then(t, c, i, err)
	})
}

func TestDiskFill(t *testing.T) {
	for _, values := range []map[string]string{nil, {"free": "1Mi"}} {
		filling(t, values, func(t *testing.T, c fillCluster, i Injection, err error) {
			if err != nil || !i.Proof().Proven || !badDiskNow(c.fakeCluster) {
				t.Fatalf("%v, %v", i, err)
			}
			if what := i.Proof().What; values == nil && !strings.Contains(what, "write failed with ENOSPC") || !strings.Contains(what, "the file system had 1073741824 bytes free before") {
				t.Errorf("the proof is %q", what)
			}
			c.stubborn = true
			if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
				t.Errorf("healed while it is full: %+v, %v", healed, err)
			}
			c.stubborn = false
			noEtcd(c.fakeCluster)
			if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
				t.Errorf("healed while the member is down: %+v, %v", healed, err)
			}
			c.fakeCluster.nodes[1].spawn(framework.Etcd)
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || badDiskNow(c.fakeCluster) {
				t.Errorf("healed: %+v, %v", healed, err)
			}
		})
	}
	filling(t, map[string]string{"free": "2Gi"}, func(t *testing.T, c fillCluster, i Injection, err error) {
		if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, "nothing was injected") || c.asked != 0 {
			t.Errorf("more was left than there is: %v, %v", i, err)
		}
	})
}

// TestDiskFillWithoutEffect: a file system that stays as it is proves nothing.
func TestDiskFillWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fillCluster{fakeCluster: newFake(framework.Etcd)}
		time.Sleep(time.Minute)
		c.inert = true
		i, err := DiskFull.Inject(t.Context(), c, component("node-2", framework.Etcd), Params{TTL: ttl})
		if err != nil || i.Proof().Proven || c.asked != 1 {
			t.Errorf("%v, %v", i, err)
		}
	})
}

// TestDiskFillShared: what must not be filled is a missing ability, with the reason, before anything
// is touched. Other faults of the disk are, too.
func TestDiskFillShared(t *testing.T) {
	c := fillCluster{newFake(framework.Etcd), true}
	target, p := component("node-2", framework.Etcd), Params{TTL: ttl}
	before := DiskFull.Possible(t.Context(), c, target, p)
	_, then := DiskFull.Inject(t.Context(), c, target, p)
	for _, err := range []error{before, then} {
		var missing *MissingAbility
		if !errors.As(err, &missing) || missing.Ability != "DiskFiller" || !strings.Contains(err.Error(), "it holds /var as well") {
			t.Errorf("%v", err)
		}
	}
	var missing *MissingAbility
	if err := DiskSlow.Possible(t.Context(), c, target, p); !errors.As(err, &missing) || missing.Ability != "DiskFaulter" {
		t.Errorf("a slow disk: %v", err)
	}
	if c.asked != 0 {
		t.Errorf("asked %d times", c.asked)
	}
	c.shared = false
	if err := DiskFull.Possible(t.Context(), c, target, p); err != nil {
		t.Error(err)
	}
	if err := DiskFull.Possible(t.Context(), c.fakeCluster, target, p); err != nil {
		t.Errorf("with a disk that can fail: %v", err)
	}
}
