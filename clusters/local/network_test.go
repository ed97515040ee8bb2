package local

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// links returns the state of every link.
func links(c *Cluster) (all []vnet.LinkStatus) {
	for _, from := range c.Parties() {
		for _, to := range c.Parties() {
			all = append(all, c.sw.Link(from, to))
		}
	}
	return all
}

// wholeLinks checks that no link has an impairment and no packet waits.
func wholeLinks(t *testing.T, c *Cluster) {
	t.Helper()
	for _, l := range links(c) {
		if len(l.Rules) > 0 || l.Packets+l.Duplicated != l.Delivered+l.Dropped+l.Queued {
			t.Errorf("link from %s to %s: %+v", l.From, l.To, l)
		}
	}
	c.impair.mu.Lock()
	defer c.impair.mu.Unlock()
	if n := c.impair.timers.Len(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

// testNetwork injects faults of the network.
func testNetwork(t *testing.T, c *Cluster) {
	healEach(t, c, []faultCase{
		{fault.Bandwidth, "etcd/leader", "rate=5M"},
		{fault.BlackHole, "etcd/follower", "established=true port=etcd-peer"},
		{fault.BlackHole, "harness", "established=true peer=node-2"},
		{fault.Corrupt, "node/2", "share=20%"},
		{fault.Cut, "etcd/leader", "direction=in port=etcd-peer"},
		{fault.Cut, "apiserver/1", ""},
		{fault.Cut, "balancer", "peer=harness direction=out"},
		{fault.Cut, "workers", ""},
		{fault.Cut, "zone/b", "peer=zone/a port=etcd-peer flap=200ms/300ms"},
		{fault.Duplicate, "etcd/leader", "share=50%"},
		{fault.Isolate, "zone/b", "keep=harness"},
		{fault.Latency, "etcd/leader", "delay=15ms jitter=3ms distribution=pareto"},
		{fault.Latency, "harness", "delay=30ms"},
		{fault.Loss, "node/leader", "share=30%"},
		{fault.Reorder, "etcd/leader", "share=30%"},
		{fault.Reset, "etcd/leader", "port=etcd-peer"},
		{fault.Reset, "harness", "established=true peer=node-3 port=apiserver"},
		{fault.Reset, "harness", "established=true peer=node-3 port=etcd-client"},
		{fault.Split, "node/leader", ""},
		{fault.Split, "node/leader", "shape=bridge hosts=balancer:2"},
	}, wholeLinks)

	t.Run("healed by the provider", func(t *testing.T) {
		began := time.Now()
		inject(t, c, fault.Loss, "node/2", time.Second, "share=50%")
		inject(t, c, fault.Cut, "etcd/2", 1500*time.Millisecond, "flap=100ms/50ms")
		eventually(t, 30*time.Second, "no link has an impairment", func() bool {
			for _, l := range links(c) {
				if len(l.Rules) > 0 {
					return false
				}
			}
			return true
		})
		if time.Since(began) < 1500*time.Millisecond {
			t.Error("they were healed before their time")
		}
		wholeLinks(t, c)
		eventually(t, 60*time.Second, "node-2 is ready", func() bool { return ready(t, c, "node-2") })
	})

	t.Run("connections wait to send again", func(t *testing.T) {
		// stalled counts the nodes of the two whose connections to the other wait.
		stalled := func() (n int) {
			for i, node := range c.Nodes()[:2] {
				all, err := node.(framework.ConnectionReporter).Connections(t.Context(), []netip.Addr{c.Nodes()[1-i].Address()})
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(all, func(c framework.Connection) bool { return c.Stalled }) {
					n++
				}
			}
			return n
		}
		eventually(t, 60*time.Second, "none waits after the faults before", func() bool { return stalled() == 0 })
		i := inject(t, c, fault.Isolate, "node/2", longTTL, "")
		eventually(t, 10*time.Second, "both ends wait", func() bool { return stalled() == 2 })
		heal(t, i)
		eventually(t, 60*time.Second, "none waits any longer", func() bool { return stalled() == 0 })
	})

	t.Run("overlapping, healed in any order", func(t *testing.T) {
		var all []fault.Injection
		for _, f := range []faultCase{
			{fault.Latency, "node/2", "delay=5ms"},
			{fault.Loss, "etcd/2", "share=20%"},
			{fault.Duplicate, "zone/b", "share=20%"},
			{fault.Cut, "node/2", "peer=workers,balancer"},
			{fault.Isolate, "node/2", ""},
		} {
			all = append(all, f.inject(t, c, longTTL))
		}
		for _, at := range rand.Perm(len(all)) {
			heal(t, all[at])
		}
		wholeLinks(t, c)
	})

	t.Run("many in a row leave nothing", func(t *testing.T) {
		power := c.Nodes()[2].(framework.PowerSwitch)
		links := []framework.Link{{From: "node-1", To: "node-2"}, {From: "node-2", To: "node-1"}, {From: "harness", To: "node-1"}}
		round := func(n int) {
			for k := range n {
				imp := []framework.Impairment{{Cut: true}, {Delay: time.Millisecond}, {Reset: true, Established: true}, {Loss: 0.5, FlapOn: time.Millisecond, FlapOff: time.Millisecond}}[k%4]
				handle, err := c.Impair(t.Context(), links, imp, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if k%2 == 0 {
					if err := c.Restore(t.Context(), handle); err != nil {
						t.Fatal(err)
					}
					continue
				}
				// Left to its time to live.
				if _, err := c.Impair(t.Context(), links, imp, time.Microsecond); err != nil {
					t.Fatal(err)
				}
				if err := c.Restore(t.Context(), handle); err != nil {
					t.Fatal(err)
				}
			}
			if err := power.PowerOff(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := power.PowerOn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		round(20)
		eventually(t, 60*time.Second, "node-3 is ready", func() bool { return ready(t, c, "node-3") })
		descriptors, goroutines := entries(t, "/proc/self/fd"), runtime.NumGoroutine()
		for range 3 {
			round(60)
		}
		eventually(t, 60*time.Second, "node-3 is ready", func() bool { return ready(t, c, "node-3") })
		eventually(t, 30*time.Second, "descriptors and goroutines are as before", func() bool {
			return entries(t, "/proc/self/fd") <= descriptors+2 && runtime.NumGoroutine() <= goroutines+2
		})
		wholeLinks(t, c)
	})
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
