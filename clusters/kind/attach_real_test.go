package kind

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// TestAttachForReal has kind make a cluster on a network of its own choice, takes it over,
// breaks it and lets go of it. It takes what TestForReal takes:
//
//	HOLDFAST_TEST_KIND=1 go test ./clusters/kind -run AttachForReal -v -timeout 60m
func TestAttachForReal(t *testing.T) {
	spec := clusters.Default()
	spec.Metadata.Name = "holdfast-theirs"
	spec.Spec.Workers = 0
	if !insideEngine(t, spec) {
		return
	}
	const networkName = "holdfast-test-theirs"
	ctx, name, dir := t.Context(), spec.Metadata.Name, t.TempDir()
	e, err := engine.Find(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cli := docker.CLI{Host: e.Host}
	images, err := ensureImages(ctx, e, nodeVersions(spec), clusters.Preparation{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := configuration(spec, func(version string) string { image, _ := images.Node(version); return image }, netip.MustParseAddr("127.0.0.1"), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Delete(context.Background(), name, e.Host); err != nil {
			t.Error(err)
		}
		_, _ = cli.Run(context.Background(), "network", "rm", networkName)
	})
	err = withKind(e.Host, networkName, kindlog.NoopLogger{}, func(p *cluster.Provider) error {
		return kindFailed(p.Create(name, cluster.CreateWithV1Alpha4Config(config), cluster.CreateWithKubeconfigPath(filepath.Join(dir, "kubeconfig"))))
	})
	if err != nil {
		t.Fatal(err)
	}
	addresses := func() map[string]string {
		all, err := machines(ctx, cli, name)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, c := range all {
			found[c.Name] = c.NetworkSettings.Networks[networkName].IPAddress
		}
		return found
	}
	before := addresses()

	described, err := Provider{}.Describe(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Provider{}.Attach(ctx, described, clusters.Options{Dir: t.TempDir(), DataDir: filepath.Join(t.TempDir(), "data"), Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*attached)
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if s := keeper.Look(ctx, c, c); !s.Ready || len(s.Hosts) != 4 {
		t.Errorf("%+v", s)
	}
	for _, f := range [][2]string{{"kill", "etcd/leader"}, {"isolate", "node/follower"}, {"power-off", "node/2"}} {
		board := fault.NewBoard(c, func(fault.Entry) {})
		entry, err := board.Inject(ctx, f[0], f[1], fault.Params{TTL: time.Minute})
		if err != nil || !entry.Effect.Proven {
			t.Fatalf("%s: %+v, %v", f, entry, err)
		}
		if healed, err := board.Heal(ctx); err != nil || len(healed) != 1 || !healed[0].Healing.Proven {
			t.Fatalf("%s: %+v, %v", f, healed, err)
		}
	}
	// Started in another order than that of their addresses.
	for _, args := range [][]string{{"kill", name + "-control-plane2", name + "-control-plane3"}, {"start", name + "-control-plane3"}, {"start", name + "-control-plane2"}} {
		if _, err := cli.Run(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	for n, address := range addresses() {
		if before[n] != address {
			t.Errorf("%s had %s and has %s", n, before[n], address)
		}
	}
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}

	added, err := c.AddNode(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if all := addresses(); len(all) != len(before)+1 || all[added.Name()] != added.Address().String() {
		t.Errorf("with %s there are %v", added.Name(), all)
	}
	if err := made.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if all := addresses(); len(all) != len(before) || all[added.Name()] != "" {
		t.Errorf("the nodes after that: %v", all)
	}
	// One whose addition was killed before its etcd ran.
	models, err := cli.Inspect(ctx, name+"-control-plane")
	if err != nil {
		t.Fatal(err)
	}
	address, err := c.network.added(9)
	if err != nil {
		t.Fatal(err)
	}
	killed := likeContainer(c.marked(models[0]), name+"-control-plane9", models[0].Config.Image, networkName, address)
	if _, err := cli.Run(ctx, killed...); err != nil {
		t.Fatal(err)
	}
	if err := (Provider{}).Detach(ctx, described, false); err != nil {
		t.Error(err)
	}
	if all := addresses(); len(all) != len(before) {
		t.Errorf("the nodes once another process has released the cluster: %v", all)
	}
	for n := range before {
		left, err := cli.Run(ctx, "exec", n, "sh", "-c", "ls -d "+strings.Join([]string{agent.BinaryPath, agent.ConnectPath, agent.UnitPath, agent.ConfigPath}, " ")+" 2>/dev/null; cat /proc/[0-9]*/comm | grep holdfast-node; true")
		if err != nil || left != "" {
			t.Errorf("left on %s: %s, %v", n, left, err)
		}
	}
	if _, err := os.Stat(lockOf(name)); err == nil {
		t.Error("its lock is left")
	}
	if out, err := cli.Run(ctx, "exec", name+"-control-plane", "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "--raw", "/readyz"); err != nil || out != "ok" {
		t.Errorf("the cluster after that: %s, %v", out, err)
	}
}
