package kind

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

// Versions of TestUpgradeForReal, unless HOLDFAST_TEST_KIND_FROM and
// HOLDFAST_TEST_KIND_TO name others.
const (
	upgradeFrom = "v1.36.3"
	upgradeTo   = release.DefaultKubernetes
)

func fromEnvironment(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// TestUpgradeForReal makes a cluster of the version before the default one and upgrades it,
// node by node. It takes what TestForReal takes, and the binaries or images of both
// versions:
//
//	HOLDFAST_TEST_KIND=1 go test ./clusters/kind -run UpgradeForReal -v -timeout 60m
func TestUpgradeForReal(t *testing.T) {
	from, to := fromEnvironment("HOLDFAST_TEST_KIND_FROM", upgradeFrom), fromEnvironment("HOLDFAST_TEST_KIND_TO", upgradeTo)
	spec := clusters.Default()
	spec.Metadata.Name, spec.Spec.KubernetesVersion, spec.Spec.Workers = "holdfast-upgrade", from, 1
	// One argument of one node, which is a patch of its static pods.
	spec.Spec.Nodes[1].ExtraArgs = clusters.ExtraArgs{framework.Scheduler: {"v": "3"}}
	if os.Getenv("HOLDFAST_TEST_KIND") != "" && os.Getenv(inside) == "" {
		target := clusters.Default()
		target.Spec.KubernetesVersion = to
		if err := (Provider{}).Prepare(t.Context(), clusters.Preparation{Progress: func(s string) { t.Log(s) }}, target); err != nil {
			t.Fatal(err)
		}
	}
	if !insideEngine(t, spec) {
		return
	}
	c := createReal(t, spec)
	const path = "/api/v1/namespaces/default/configmaps"
	post(t, c.Entrances()[0], path, `{"metadata":{"name":"before"},"data":{"written":"in `+from+`"}}`)
	order := c.UpgradeOrder()
	if err := c.UpgradeNode(t.Context(), order[len(order)-1], to); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("the worker first: %v", err)
	}
	for i, name := range order {
		began := time.Now()
		if err := c.UpgradeNode(t.Context(), name, to); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s upgraded after %s", name, time.Since(began).Round(time.Second))
		for j, n := range c.Nodes() {
			want := from
			if j <= i {
				want = to
			}
			checkNode(t, c, n.(*node), want)
		}
		for _, e := range c.Entrances() {
			if _, err := await.API(t.Context(), e, path+"/before", await.Anything); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
		post(t, c.Entrances()[0], path, fmt.Sprintf(`{"metadata":{"name":"after-%d"}}`, i))
	}
	if err := c.UpgradeNode(t.Context(), order[0], to); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := c.UpgradeNode(t.Context(), order[0], from); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("back: %v", err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := c.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range order {
		if v := found.kubelet(name); v != to {
			t.Errorf("the kubelet of %s is %s", name, v)
		}
	}
	scheduler := found.pods[order[1]][framework.Scheduler].Spec.Containers[0]
	if !slices.Contains(scheduler.Command, "--v=3") {
		t.Errorf("the scheduler of %s has lost its own argument: %q", order[1], scheduler.Command)
	}
	if len(found.pods[order[0]][framework.APIServer].Spec.Containers[0].Env) == 0 {
		t.Error("API servers have lost their environment")
	}
	t.Run("a node is added", func(t *testing.T) {
		n, err := c.AddNode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkNode(t, c, n.(*node), to)
	})
}

// checkNode checks whether all components of a node have a version, as the cluster says,
// and whether those that are clients use the node's own API server.
func checkNode(t *testing.T, c *Cluster, n *node, want string) {
	t.Helper()
	for _, component := range components {
		if v := c.Versions()[n.name][component]; v != want {
			t.Errorf("%s of %s is said to be %s, not %s", component, n.name, v, want)
		}
	}
	if _, err := await.API(t.Context(), c.entrance(n), "/version", func(body []byte) error { return servesVersion(body, want) }); err != nil {
		t.Errorf("the API server of %s: %v", n.name, err)
	}
	if etcd, err := c.etcdVersion(t.Context(), n); err != nil || etcd != c.Versions()[n.name][framework.Etcd] {
		t.Errorf("etcd of %s: %s, %v", n.name, etcd, err)
	}
	for _, file := range []string{"kubelet.conf", "controller-manager.conf", "scheduler.conf"} {
		if _, err := n.docker(t.Context(), "exec", n.name, "grep", "-q", "server: https://"+n.address.String()+":"+apiServerPort, kubernetesDir+file); err != nil {
			t.Errorf("%s of %s leads elsewhere: %v", file, n.name, err)
		}
	}
	for _, component := range append(n.Components(), framework.NodeAgent) {
		if p, err := n.Process(t.Context(), component); err != nil || p.PID == 0 {
			t.Errorf("%s on %s: %+v, %v", component, n.name, p, err)
		}
	}
}

func post(t *testing.T, e framework.Entrance, path, body string) {
	t.Helper()
	client, err := await.Client(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if _, err := await.Request(t.Context(), client, http.MethodPost, e.Config.Host+path, body); err != nil {
		t.Fatalf("writing through %s: %v", e.Name, err)
	}
}
