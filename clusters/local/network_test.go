package local

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// injectFault injects a fault and checks the proof of its effect.
func injectFault(t *testing.T, c *Cluster, name, target string, values map[string]string, ttl time.Duration) fault.Injection {
	t.Helper()
	f, err := fault.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return inject(t, c, f, target, fault.Params{TTL: ttl, Values: values})
}

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

// TestNetworkFaults injects every fault of the network into one cluster.
func TestNetworkFaults(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) {
		for i, zone := range []string{"a", "b", "b"} {
			s.Spec.Nodes[i].Zone = zone
		}
	})
	for _, tc := range []struct {
		fault, target string
		values        map[string]string
	}{
		{"bandwidth", "etcd/leader", map[string]string{"rate": "5M"}},
		{"black-hole", "etcd/follower", map[string]string{"established": "true", "port": "etcd-peer"}},
		{"black-hole", "harness", map[string]string{"established": "true", "peer": "node-2"}},
		{"corrupt", "node/2", map[string]string{"share": "20%"}},
		{"cut", "etcd/leader", map[string]string{"direction": "in", "port": "etcd-peer"}},
		{"cut", "apiserver/1", nil},
		{"cut", "balancer", map[string]string{"peer": "harness", "direction": "out"}},
		{"cut", "workers", nil},
		{"cut", "zone/b", map[string]string{"peer": "zone/a", "port": "etcd-peer", "flap": "200ms/300ms"}},
		{"duplicate", "etcd/leader", map[string]string{"share": "50%"}},
		{"isolate", "zone/b", map[string]string{"keep": "harness"}},
		{"latency", "etcd/leader", map[string]string{"delay": "15ms", "jitter": "3ms", "distribution": "pareto"}},
		{"latency", "harness", map[string]string{"delay": "30ms"}},
		{"loss", "node/leader", map[string]string{"share": "30%"}},
		{"reorder", "etcd/leader", map[string]string{"share": "30%"}},
		{"reset", "etcd/leader", map[string]string{"port": "etcd-peer"}},
		{"reset", "harness", map[string]string{"established": "true", "peer": "node-3", "port": "apiserver"}},
		{"reset", "harness", map[string]string{"established": "true", "peer": "node-3", "port": "etcd-client"}},
		{"split", "node/leader", nil},
		{"split", "node/leader", map[string]string{"shape": "bridge", "hosts": "balancer:2"}},
	} {
		name := tc.fault + " " + tc.target
		for k, v := range tc.values {
			name += " " + k + "=" + v
		}
		t.Run(name, func(t *testing.T) {
			i := injectFault(t, c, tc.fault, tc.target, tc.values, time.Minute)
			heal(t, i)
			wholeLinks(t, c)
		})
	}

	t.Run("healed by the provider", func(t *testing.T) {
		began := time.Now()
		injectFault(t, c, "loss", "node/2", map[string]string{"share": "50%"}, time.Second)
		injectFault(t, c, "cut", "etcd/2", map[string]string{"flap": "100ms/50ms"}, 1500*time.Millisecond)
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
		i := injectFault(t, c, "isolate", "node/2", nil, time.Minute)
		eventually(t, 10*time.Second, "both ends wait", func() bool { return stalled() == 2 })
		heal(t, i)
		eventually(t, 60*time.Second, "none waits any longer", func() bool { return stalled() == 0 })
	})

	t.Run("overlapping, healed in any order", func(t *testing.T) {
		all := []fault.Injection{
			injectFault(t, c, "latency", "node/2", map[string]string{"delay": "5ms"}, time.Minute),
			injectFault(t, c, "loss", "etcd/2", map[string]string{"share": "20%"}, time.Minute),
			injectFault(t, c, "duplicate", "zone/b", map[string]string{"share": "20%"}, time.Minute),
			injectFault(t, c, "cut", "node/2", map[string]string{"peer": "workers,balancer"}, time.Minute),
			injectFault(t, c, "isolate", "node/2", nil, time.Minute),
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
