package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// etcdOn returns a client of one node's member.
func etcdOn(t testing.TB, c *Cluster, node string) *clientv3.Client {
	t.Helper()
	config, err := c.EtcdConfig(node)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// putKey writes through a member and reports whether that was acknowledged.
func putKey(t *testing.T, client *clientv3.Client, key string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := client.Put(ctx, key, "x")
	return err == nil
}

// hasKey reads through a member, which must answer.
func hasKey(t *testing.T, client *clientv3.Client, key string) bool {
	t.Helper()
	var found bool
	eventually(t, 2*time.Minute, "etcd answers a read", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		got, err := client.Get(ctx, key)
		found = err == nil && got.Count > 0
		return err == nil
	})
	return found
}

// A machine whose disk was stopped does not start: etcd would find no data.
func TestDiskStopped(t *testing.T) {
	needDisks(t)
	c := &Cluster{o: Options{Options: clusters.Options{Progress: func(string) {}}}}
	m := &machine{name: "node-1", dir: t.TempDir(), run: t.TempDir(), logs: t.TempDir()}
	if _, err := c.makeDisk(m, ""); err != nil {
		t.Fatal(err)
	}
	if err := m.disk.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := m.powerOn(t.Context()); err == nil || !strings.Contains(err.Error(), "not a failure of the cluster") {
		t.Error(err)
	}
}

// TestDisks puts every fault of the disk to one cluster.
func TestDisks(t *testing.T) {
	needDisks(t)
	c := newCluster(t, func(s *clusters.Cluster) {
		s.Spec.Workers, s.Spec.LoadBalancer.Kind, s.Spec.Disk = 0, clusters.BalancerNone, clusters.DiskFUSE
	})
	on := func(i int) (framework.Node, fault.Target) {
		n := c.Nodes()[i]
		return n, fault.Target{Asked: fmt.Sprintf("etcd/%d", i+1), Node: n.Name(), Component: framework.Etcd}
	}
	sound := func(n framework.Node) bool {
		p, err := n.(framework.DiskFaulter).ProbeDisk(t.Context())
		return err == nil && p.Read.Done && p.Write.Error+p.Sync.Error+p.Read.Error == "" && !p.Unsynced
	}
	serves := func(n framework.Node) bool { return putKey(t, etcdOn(t, c, n.Name()), "serves") }

	for i, f := range []struct {
		fault  *fault.Fault
		params string
		ends   bool // etcd cannot continue
	}{
		{fault.DiskSlow, "delay=200ms jitter=20ms", false},
		{fault.DiskSlow, "op=all delay=20ms", false},
		{fault.DiskError, "op=fsync", true},
		{fault.DiskError, "error=EROFS", true},
		{fault.DiskError, "op=read", false},
		{fault.DiskFull, "", true},
		{fault.DiskFull, "free=1Gi", false},
		{fault.DiskLie, "", false},
		// Not at the beginning of the file: with each commit etcd writes one of its
		// first two pages, and what was flipped there is gone before it is proven.
		{fault.DiskFlip, "bytes=64", false},
		{fault.DiskFlip, "bytes=16 file=member/wal/*.wal", false},
		{fault.DiskWipe, "", true},
	} {
		t.Run(f.fault.Name+" "+f.params, func(t *testing.T) {
			n, target := on(i % 3)
			before := process(t, n, framework.Etcd)
			in := inject(t, c, f.fault, target.Asked, longTTL, f.params)
			if f.ends {
				eventually(t, 60*time.Second, "etcd ends", func() bool {
					p := process(t, n, framework.Etcd)
					return p.Restarts > before.Restarts || p.PID == 0
				})
			}
			heal(t, in)
			eventually(t, 60*time.Second, "the member takes writes", func() bool { return serves(n) })
		})
	}

	t.Run("time to live", func(t *testing.T) {
		const log = "member/wal/0000000000000000-0000000000000000.wal"
		wal := func(n framework.Node) string {
			b, err := n.(framework.DiskDamager).ReadDisk(t.Context(), log, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		flipped, _ := on(2)
		intact := wal(flipped)
		for i, f := range []struct {
			fault  *fault.Fault
			params string
		}{{fault.DiskFull, ""}, {fault.DiskLie, ""}, {fault.DiskFlip, "offset=0 bytes=64 file=" + log}} {
			_, target := on(i)
			inject(t, c, f.fault, target.Asked, 3*time.Second, f.params)
		}
		if wal(flipped) == intact {
			t.Error("nothing is flipped")
		}
		for i := range 3 {
			n, _ := on(i)
			eventually(t, 60*time.Second, "the disk is sound and the member takes writes", func() bool { return sound(n) && serves(n) })
		}
		eventually(t, 60*time.Second, "the flipped bytes are as they were", func() bool { return wal(flipped) == intact })

		// A wipe ends under a member that crashes or runs.
		n, target := on(0)
		intact = wal(n)
		inject(t, c, fault.DiskWipe, target.Asked, 2*time.Second, "")
		eventually(t, 90*time.Second, "the member has its data again and takes writes", func() bool {
			_, err := n.(framework.DiskDamager).ReadDisk(t.Context(), log, 0, 64)
			return err == nil && wal(n) == intact && serves(n)
		})
	})

	t.Run("overlapping", func(t *testing.T) {
		n, target := on(1)
		var all []fault.Injection
		for _, f := range []*fault.Fault{fault.DiskSlow, fault.DiskLie, fault.DiskFlip, fault.DiskSlow} {
			all = append(all, inject(t, c, f, target.Asked, longTTL, ""))
		}
		heal(t, all[2], all[0], all[3], all[1])
		if !sound(n) {
			t.Error("the disk is not as it was")
		}
	})

	t.Run("a slow disk does not keep a killed member", func(t *testing.T) {
		n, target := on(2)
		in := inject(t, c, fault.DiskSlow, target.Asked, longTTL, "op=all delay=1m")
		began := time.Now()
		if err := n.(framework.Killer).Kill(t.Context(), framework.Etcd, 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the end took %s", took)
		}
		heal(t, in)
		eventually(t, 60*time.Second, "the member takes writes", func() bool { return serves(n) })
	})

	// Power fails on all nodes at the same time, and every disk forgets unsynced data: every
	// write that etcd acknowledged must be there afterwards. With disks that lie about syncs,
	// it is lost. The disks begin to lie one after the other, so the last one may keep entries
	// as committed that the others forgot; its member then refuses the new leader's log
	// permanently, and never serves.
	for _, lying := range []bool{false, true} {
		t.Run(fmt.Sprintf("power lost, lying disks %v", lying), func(t *testing.T) {
			key := fmt.Sprintf("acknowledged-%v", lying)
			client := etcdOn(t, c, "node-1")
			var lies []fault.Injection
			if lying {
				for i := range 3 {
					_, target := on(i)
					lies = append(lies, inject(t, c, fault.DiskLie, target.Asked, longTTL, ""))
				}
			}
			acknowledged := 0
			eventually(t, 60*time.Second, "etcd takes writes", func() bool { return putKey(t, client, key) })
			for i := range 50 {
				if putKey(t, client, fmt.Sprintf("%s-%d", key, i)) {
					acknowledged++
				}
			}
			outages := make([]fault.Injection, 3)
			var all sync.WaitGroup
			for i := range outages {
				all.Go(func() {
					n, _ := on(i)
					outages[i], _ = fault.PowerOff.Inject(t.Context(), c, fault.Target{Asked: "node", Node: n.Name()},
						fault.Params{TTL: time.Hour, Values: map[string]string{"unsynced": "drop"}})
				})
			}
			all.Wait()
			for _, i := range outages {
				// An honest disk may have nothing unsynced, and then the fault is not proven.
				if i == nil || !i.Proof().Proven && (lying || !strings.Contains(i.Proof().What, "no disk had unsynced changes")) {
					t.Fatalf("power was not cut: %+v", i)
				}
				t.Log(i.Proof().What)
			}
			// A cluster comes back as a whole or not at all.
			for _, i := range outages {
				all.Go(func() {
					proof, err := i.Heal(t.Context())
					if err != nil || !proof.Proven && !lying {
						t.Errorf("power back: %+v, %v", proof, err)
					}
					t.Log(proof.What)
				})
			}
			all.Wait()
			missing := 0
			for i := range 50 {
				if !hasKey(t, client, fmt.Sprintf("%s-%d", key, i)) {
					missing++
				}
			}
			if lost := missing - (50 - acknowledged); lying && lost <= 0 || !lying && lost > 0 {
				t.Errorf("%d of 50 keys were acknowledged, %d are missing", acknowledged, missing)
			}
			t.Logf("%d of 50 keys were acknowledged, %d are missing", acknowledged, missing)
			for _, i := range lies {
				if _, err := i.Heal(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// needDisks skips a test where disks that can fail are not available.
func needDisks(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	f.Close()
}

// TestDiskOfOneNode: only the node that was asked for has the abilities, and
// closing a cluster with a stuck disk does not hang.
func TestDiskOfOneNode(t *testing.T) {
	needDisks(t)
	c := newCluster(t, func(s *clusters.Cluster) {
		s.Spec.Workers, s.Spec.Data = 0, clusters.DataDisk
		s.Spec.Nodes[1].Disk = clusters.DiskFUSE
	})
	for i, n := range c.Nodes() {
		if _, ok := n.(framework.DiskFaulter); ok != (i == 1) {
			t.Errorf("%s can fail: %v", n.Name(), ok)
		}
	}
	if err := fault.DiskSlow.Check(c, fault.Target{Asked: "etcd/1", Node: "node-1", Component: framework.Etcd}, fault.Params{TTL: time.Minute}); err == nil ||
		!strings.Contains(err.Error(), "holdfast up --disk fuse") {
		t.Errorf("a node without such a disk: %v", err)
	}
	inject(t, c, fault.DiskSlow, "etcd/2", longTTL, "op=all delay=1m")
	began := time.Now()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("closing took %s", took)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), "holdfast.disk") || strings.Contains(string(mounts), "fuse") {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
}
