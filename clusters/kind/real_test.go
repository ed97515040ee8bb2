package kind

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// inside marks the copy of the test that runs in the engine's network.
const inside = "HOLDFAST_TEST_KIND_INSIDE"

// insideEngine reports whether this is the copy of the test that runs in the engine's
// network. Elsewhere it runs that.
func insideEngine(t *testing.T, spec *clusters.Cluster) bool {
	t.Helper()
	if os.Getenv("HOLDFAST_TEST_KIND") == "" {
		t.Skip("set HOLDFAST_TEST_KIND=1")
	}
	if os.Getenv(inside) != "" {
		return true
	}
	if err := (Provider{}).Prepare(t.Context(), clusters.Preparation{Progress: func(s string) { t.Log(s) }}, spec); err != nil {
		t.Fatal(err)
	}
	cmd, err := Provider{}.Command(t.Context(), "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=30m")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return false
}

// createReal creates a cluster in the engine, and deletes it after the test, which must leave no
// container.
func createReal(t *testing.T, spec *clusters.Cluster) *Cluster {
	t.Helper()
	made, err := Provider{}.Create(t.Context(), spec, clusters.Options{Dir: t.TempDir(), LogDir: t.TempDir(), Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*heldCluster).Cluster
	t.Cleanup(func() {
		if err := made.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, label := range []string{clusterLabel, upgradeLabel} {
			if left, err := c.cli.List(context.Background(), label+"="+c.Name()); err != nil || len(left) > 0 {
				t.Errorf("containers that are left: %v, %v", left, err)
			}
		}
	})
	return c
}

// TestForReal makes a cluster in a real engine and breaks it. It takes root, what
// docs/kind.md says, and some minutes:
//
//	HOLDFAST_TEST_KIND=1 go test ./clusters/kind -run ForReal -v -timeout 60m
func TestForReal(t *testing.T) {
	if encoded := os.Getenv(injecting); encoded != "" {
		t.Fatal(injectAndWait(encoded))
	}
	spec := clusters.Default()
	spec.Metadata.Name = "holdfast-test"
	spec.Spec.Workers = 1
	spec.Spec.Sysctls = map[string]string{"net.ipv4.tcp_retries2": "11", "net.ipv4.holdfast_none": "1"}
	if !insideEngine(t, spec) {
		return
	}
	c := createReal(t, spec)
	t.Run("taken", func(t *testing.T) {
		again := *spec
		again.Metadata.Name = c.Name()
		e, err := engine.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Create(t.Context(), &again, Options{Engine: e.Host, Dir: t.TempDir()}); !errors.Is(err, ErrExists) {
			t.Errorf("a second cluster of the name: %v", err)
		}
	})
	t.Run("kernel settings", func(t *testing.T) {
		for _, n := range c.containers() {
			if got, err := n.docker(t.Context(), "exec", n.name, "cat", "/proc/sys/net/ipv4/tcp_retries2"); err != nil || got != "11" {
				t.Errorf("%s: %q, %v", n.name, got, err)
			}
		}
	})
	t.Run("processes", func(t *testing.T) {
		for _, n := range c.nodes {
			for _, component := range append(n.Components(), framework.NodeAgent, framework.ContainerRuntime) {
				if p, err := n.Process(t.Context(), component); err != nil || p.PID == 0 || p.State == "" {
					t.Errorf("%s on %s: %+v, %v", component, n.name, p, err)
				}
			}
		}
	})
	for _, test := range []struct {
		fault, on string
		params    map[string]string
	}{
		{"kill", "kcm/active", nil},
		{"kill", "etcd/leader", nil},
		{"kill", "apiserver/1", nil},
		{"freeze", "etcd/follower", nil},
		{"stop", "scheduler/active", nil},
		{"kill", "balancer", nil},
		{"isolate", "node/follower", nil},
		{"loss", "node/1", map[string]string{"share": "30%"}},
		{"latency", "node/1", map[string]string{"delay": "20ms", "peer": "2,3"}},
		{"cert-expired", "apiserver/2", nil},
		{"power-off", "node/follower", nil},
		{"pause", "node/leader", nil},
		{"disk-wipe", "etcd/follower", nil},
	} {
		t.Run(test.fault+" "+test.on, func(t *testing.T) {
			board := fault.NewBoard(c, func(fault.Entry) {})
			e, err := board.Inject(t.Context(), test.fault, test.on, fault.Params{TTL: time.Minute, Values: test.params})
			if err != nil || !e.Effect.Proven {
				t.Fatalf("%+v, %v", e, err)
			}
			t.Log(e.Effect.What)
			healed, err := board.Heal(t.Context(), e.ID)
			if err != nil || len(healed) != 1 || healed[0].Healing == nil || !healed[0].Healing.Proven {
				t.Fatalf("%+v, %v", healed, err)
			}
			t.Log(healed[0].Healing.What)
			if err := c.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Only its guard brings it back.
	t.Run("power comes back by itself", func(t *testing.T) {
		n := c.nodes[2]
		if err := n.PowerOff(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if on, err := n.Powered(t.Context()); err != nil || on {
			t.Fatalf("powered: %t, %v", on, err)
		}
		whileAway(t, "it is off", func(ctx context.Context) (bool, error) {
			on, err := n.Powered(ctx)
			return !on, err
		})
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("harness killed", func(t *testing.T) { testHarnessKilled(t, c) })
	t.Run("wiped data come back by themselves", func(t *testing.T) { testWipeEnds(t, c) })
	t.Run("nodes come and go", func(t *testing.T) { testNodes(t, c) })
}
