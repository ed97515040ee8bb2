package local

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// newCluster creates a cluster for a test or a benchmark. Those that need one are skipped where
// the binaries are not in the cache.
func newCluster(t testing.TB, change func(*clusters.Cluster)) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("makes a cluster")
	}
	spec := clusters.Default()
	if change != nil {
		change(spec)
	}
	for _, b := range Binaries(spec) {
		if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
			t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
		}
	}
	o := clusters.Options{Dir: t.TempDir()}
	if t, ok := t.(*testing.T); ok {
		o.Progress = func(s string) { t.Log(s) }
	}
	c, err := Create(t.Context(), spec, Options{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

var eventually = polltest.Within

func process(t testing.TB, n framework.Node, c framework.Component) framework.Process {
	t.Helper()
	p, err := n.(framework.ProcessReporter).Process(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testOneProcess does to one process what faults do.
func testOneProcess(t *testing.T, c *Cluster) {
	n := c.Nodes()[0]

	t.Run("killed and left to the watcher", func(t *testing.T) {
		before := process(t, n, framework.Scheduler)
		if err := n.(framework.Killer).Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		var after framework.Process
		eventually(t, 10*time.Second, "the scheduler runs again", func() bool {
			after = process(t, n, framework.Scheduler)
			return after.PID != 0
		})
		if after.StartTicks == before.StartTicks && after.PID == before.PID {
			t.Errorf("it is the same process: %+v", after)
		}
		if after.Restarts != before.Restarts+1 || after.LastExit != "signal: killed" {
			t.Errorf("restarts %d after %d, last exit %q", after.Restarts, before.Restarts, after.LastExit)
		}
	})

	t.Run("killed and held down, then started", func(t *testing.T) {
		if err := n.(framework.Killer).Kill(t.Context(), framework.Scheduler, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // a watcher without a hold restarts at once
		if p := process(t, n, framework.Scheduler); p.PID != 0 || !p.Held {
			t.Errorf("it is not held down: %+v", p)
		}
		if err := n.(framework.Killer).Kill(t.Context(), framework.Scheduler, time.Hour); err == nil {
			t.Error("killing what does not run succeeded")
		}
		if err := n.(framework.Starter).Start(t.Context(), framework.Scheduler); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the scheduler runs again", func() bool { return process(t, n, framework.Scheduler).PID != 0 })
	})

	t.Run("a hold ends by itself", func(t *testing.T) {
		if err := n.(framework.Stopper).Stop(t.Context(), framework.Scheduler, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if p := process(t, n, framework.Scheduler); p.PID != 0 {
			t.Errorf("it runs: %+v", p)
		}
		eventually(t, 15*time.Second, "the scheduler runs again", func() bool { return process(t, n, framework.Scheduler).PID != 0 })
	})

	t.Run("frozen, and thawed by itself", func(t *testing.T) {
		if err := n.(framework.Freezer).Freeze(t.Context(), framework.Scheduler, time.Second); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, "state T", func() bool { return process(t, n, framework.Scheduler).State == "T" })
		eventually(t, 10*time.Second, "no longer state T", func() bool { return process(t, n, framework.Scheduler).State != "T" })
	})

	t.Run("the agent killed: components go on and are adopted", func(t *testing.T) {
		api, scheduler := process(t, n, framework.APIServer), process(t, n, framework.Scheduler)
		killAgent(t, c.nodes[0])
		if p := process(t, n, framework.APIServer); p.PID != api.PID || p.StartTicks != api.StartTicks {
			t.Errorf("the API server was restarted: %+v, before %+v", p, api)
		}
		if err := n.(framework.Killer).Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "an adopted component that dies is restarted", func() bool {
			p := process(t, n, framework.Scheduler)
			return p.PID != 0 && p.PID != scheduler.PID
		})
		if p := process(t, n, framework.Scheduler); p.LastExit != "signal: killed" {
			t.Errorf("the end of an adopted component is %q, want signal: killed", p.LastExit)
		}
	})
}

func ready(t *testing.T, c *Cluster, entrance string) bool {
	t.Helper()
	for _, e := range c.Entrances() {
		if e.Name == entrance {
			config := rest.CopyConfig(e.Config)
			config.Timeout = time.Second
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			_, err = await.Request(t.Context(), client, http.MethodGet, e.Config.Host+"/readyz", "")
			return err == nil
		}
	}
	t.Fatalf("no entrance %s", entrance)
	return false
}

// testPowerAndLinks does to one node what faults do to machines and links.
func testPowerAndLinks(t *testing.T, c *Cluster) {
	n := c.Nodes()[2]

	t.Run("isolated for a time", func(t *testing.T) {
		links := []framework.Link{{From: "harness", To: n.Name()}, {From: n.Name(), To: "harness"}}
		handle, err := c.Impair(t.Context(), links, framework.Impairment{Cut: true}, 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if ready(t, c, n.Name()) {
			t.Error("a node that is cut off answers")
		}
		if counters, err := c.ImpairmentCounters(t.Context(), handle); err != nil || len(counters) == 0 || counters[0].Dropped == 0 || counters[0].Passed != 0 {
			t.Errorf("the cut counted %+v, %v", counters, err)
		}
		eventually(t, 20*time.Second, "it answers after the time to live", func() bool { return ready(t, c, n.Name()) })
	})

	t.Run("bad impairments are refused", func(t *testing.T) {
		link := []framework.Link{{From: "harness", To: n.Name()}}
		if _, err := c.Impair(t.Context(), []framework.Link{{From: "harness", To: "node-9"}}, framework.Impairment{Cut: true}, time.Second); err == nil ||
			!strings.Contains(err.Error(), "node-1") {
			t.Errorf("unknown host: %v", err)
		}
		if _, err := c.Impair(t.Context(), link, framework.Impairment{Loss: 1.3}, time.Second); err == nil {
			t.Error("a loss of 130 % was accepted")
		}
		if _, err := c.Impair(t.Context(), link, framework.Impairment{Cut: true}, 0); err == nil {
			t.Error("an impairment without a time to live was accepted")
		}
	})

	t.Run("power off is silence, and the disk stays", func(t *testing.T) {
		conn, err := net.Dial("tcp", hostPort(n.Address(), 6443))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		power := n.(framework.PowerSwitch)
		if err := power.PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a peer of a machine without power gets %v, want silence", err)
		}
		if on, err := power.Powered(t.Context()); on || err != nil {
			t.Errorf("powered: %v, %v", on, err)
		}
		if err := power.PowerOff(t.Context(), time.Hour); err == nil {
			t.Error("taking power from a machine without it succeeded")
		}
		if err := power.PowerOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "its API server is ready again", func() bool { return ready(t, c, n.Name()) })
		config, err := c.EtcdConfig(n.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range keeper.Look(t.Context(), c, c).Hosts {
			if h.Name == n.Name() && (h.Etcd == nil || h.Etcd.Error != "" || h.Etcd.Revision < 100) {
				t.Errorf("etcd on %v after the power cut: %+v", config.Endpoints, h.Etcd)
			}
		}
	})

	t.Run("power comes back by itself", func(t *testing.T) {
		power := n.(framework.PowerSwitch)
		if err := power.PowerOff(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		off := time.Now()
		if at := n.(framework.BootReporter).Booted(); !at.IsZero() {
			t.Errorf("off since %s, and started at %s", off, at)
		}
		eventually(t, 30*time.Second, "power", func() bool { on, _ := power.Powered(t.Context()); return on })
		if at := n.(framework.BootReporter).Booted(); !at.After(off) || at.After(time.Now()) {
			t.Errorf("off since %s, and started at %s", off, at)
		}
	})

	t.Run("the state is complete", func(t *testing.T) {
		b, err := json.Marshal(keeper.Look(t.Context(), c, c))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"balancer"`, `"node-3"`, `"load-balancer"`, `"kube-scheduler"`} {
			if !strings.Contains(string(b), want) {
				t.Errorf("no %s in %s", want, b)
			}
		}
	})
}

func TestCreateLeavesNothingWhenItFails(t *testing.T) {
	spec := clusters.Default()
	spec.Spec.KubernetesVersion = "v1.2.3"
	_, err := Create(t.Context(), spec, Options{Options: clusters.Options{Dir: t.TempDir()}})
	if err == nil {
		t.Fatal("a cluster of a version that is not in the cache was made")
	}
	if _, err := os.Stat(filepath.Join(sandbox.Dir(), spec.Metadata.Name)); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
	if _, err := net.InterfaceByName("holdfast0"); err == nil {
		t.Error("the harness's network device is left")
	}
}
