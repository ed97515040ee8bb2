package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	olderKubernetes = "v1.36.3"
	olderEtcd       = "v3.6.16"
)

// TestUpgrade takes a node to the next version of etcd and of Kubernetes, there and back,
// interrupted after every step.
func TestUpgrade(t *testing.T) {
	for product, version := range map[release.Product]string{release.Kubernetes: olderKubernetes, release.Etcd: olderEtcd} {
		if _, err := release.Lookup(product, version, release.Options{}); err != nil {
			t.Skip(err)
		}
	}
	c := newCluster(t, func(s *clusters.Cluster) {
		s.SetNodes(1)
		s.Spec.Workers, s.Spec.KubernetesVersion, s.Spec.EtcdVersion = 0, olderKubernetes, olderEtcd
		s.Spec.ExtraArgs = clusters.ExtraArgs{framework.APIServer: {"shutdown-watch-termination-grace-period": "1s"}}
	})
	const node = "node-1"
	w := writing(t, c)
	var steps []string
	stop := errors.New("interrupted")
	interrupt := true
	ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
		steps = append(steps, s.Name)
		if interrupt {
			return stop
		}
		return nil
	})

	t.Run("refused", func(t *testing.T) {
		n := c.controlPlane()[0]
		for what, try := range map[string]func() error{
			"no such node":             func() error { return c.UpgradeNode(ctx, "node-7", release.DefaultKubernetes) },
			"upgrade all":              func() error { return c.UpgradeNode(ctx, node, "v1.38.0") },
			"downgrade all":            func() error { return c.UpgradeNode(ctx, node, "v1.34.0") },
			"is not a version":         func() error { return c.UpgradeNode(ctx, node, "newest") },
			"not in the cache":         func() error { return c.UpgradeNode(ctx, node, "v1.37.0") },
			"within one minor version": func() error { return c.UpgradeEtcd(ctx, node, "v3.8.1") },
			"cannot be downgraded":     func() error { return c.UpgradeEtcd(ctx, node, "v3.6.1") },
			"is held down by a fault": func() error {
				if err := n.Kill(t.Context(), framework.Scheduler, time.Minute); err != nil {
					t.Fatal(err)
				}
				defer n.Start(t.Context(), framework.Scheduler)
				return c.UpgradeNode(ctx, node, release.DefaultKubernetes)
			},
		} {
			err := try()
			if !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	t.Run("etcd", func(t *testing.T) {
		if err := c.UpgradeEtcd(ctx, node, release.EmbeddedEtcd); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		steps = nil
		if err := c.UpgradeEtcd(ctx, node, release.EmbeddedEtcd); err != nil || len(steps) != 0 {
			t.Fatalf("again: %v after %q", err, steps)
		}
	})
	upgradeBy := func(t *testing.T, version string, want ...framework.Component) {
		t.Helper()
		for i, component := range want {
			steps = nil
			if err := c.UpgradeNode(ctx, node, version); !errors.Is(err, stop) {
				t.Fatal(err)
			}
			if step := "restart " + string(component) + " in " + version; !slices.Equal(steps, []string{step}) {
				t.Fatalf("step %d is %q, not %s", i, steps, step)
			}
			if has := c.Versions()[node][component]; has != version {
				t.Errorf("%s is %s", component, has)
			}
		}
		steps = nil
		if err := c.UpgradeNode(ctx, node, version); err != nil || len(steps) != 0 {
			t.Fatalf("once more: %v after %q", err, steps)
		}
	}
	t.Run("Kubernetes", func(t *testing.T) {
		upgradeBy(t, release.DefaultKubernetes, framework.APIServer, framework.ControllerManager, framework.Scheduler)
		upgradeBy(t, olderKubernetes, framework.Scheduler, framework.ControllerManager, framework.APIServer)
		interrupt = false
		if err := c.UpgradeNode(ctx, node, release.DefaultKubernetes); err != nil || len(steps) != 3 {
			t.Fatalf("%v after %q", err, steps)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		n := c.controlPlane()[0]
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.changeTo(ended, framework.Scheduler, olderKubernetes, nil); err == nil {
			t.Error("the scheduler changed all the same")
		}
		for _, cs := range n.machine.components() {
			if cs.Name == framework.Scheduler && strings.Contains(cs.Exec.Path, olderKubernetes) {
				t.Errorf("nothing was done, and its next start is that of %s", cs.Exec.Path)
			}
		}
		// If a change failed halfway, the version that is reported may not be that of the next start.
		n.unsettled[framework.Scheduler] = true
		steps = nil
		if err := c.UpgradeNode(ctx, node, release.DefaultKubernetes); err != nil || len(steps) != 1 || !strings.Contains(steps[0], "kube-scheduler") {
			t.Errorf("to the version that it has: %v after %q", err, steps)
		}
	})
	t.Run("the power fails", func(t *testing.T) {
		n := c.controlPlane()[0]
		if err := n.machine.powerOff(time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := c.UpgradeNode(ctx, node, olderKubernetes); !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), "no power") {
			t.Error(err)
		}
		if err := n.machine.powerOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, component := range restartOrder {
			if err := n.awaitServing(t.Context(), component); err != nil {
				t.Errorf("after the power cut: %v", err)
			}
		}
	})
	t.Run("other arguments", func(t *testing.T) {
		n := c.controlPlane()[0]
		if err := c.Reconfigure(ctx, node, map[framework.Component]map[string]string{framework.Scheduler: {"v": "3"}, framework.Etcd: {"snapshot-count": "20000"}}); err != nil {
			t.Fatal(err)
		}
		args := map[framework.Component][]string{}
		for _, cs := range n.machine.components() {
			args[cs.Name] = cs.Exec.Args
		}
		if !slices.Contains(args[framework.Scheduler], "--v=3") || !slices.Contains(args[framework.Etcd], "--snapshot-count=20000") || slices.Contains(args[framework.APIServer], "--v=3") {
			t.Errorf("they run with %q", args)
		}
	})
	// It was created for the older versions; etcd would refuse a member of that one.
	t.Run("a node is added", func(t *testing.T) {
		n := added(t, c)
		if v := c.Versions()[n.Name()]; v[framework.APIServer] != release.DefaultKubernetes || v[framework.Etcd] != release.EmbeddedEtcd {
			t.Errorf("it has %v", v)
		}
	})
	// The only API server is down for most of the test, and the balancer has to notice that
	// it is back.
	eventually(t, 2*c.Settings().BalancerDetection, "five writes are acknowledged", func() bool { return w.acknowledged() >= 5 })
	w.stop(t)
}
