package kind

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

func TestNodeNumber(t *testing.T) {
	for name, want := range map[string]int{"x-control-plane": 1, "x-control-plane2": 2, "x-7-control-plane12": 12} {
		if got := nodeNumber(name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
	c := &Cluster{spec: clusters.Default()}
	if n := c.nodeSpec(4); n.Zone != "a" || n.KubernetesVersion != c.spec.Spec.KubernetesVersion {
		t.Errorf("%+v", n)
	}
	if len(c.spec.Spec.Nodes) != 3 {
		t.Error("the description of the cluster has changed")
	}
}

// Addresses of added nodes neither repeat nor meet the balancer's.
func TestAddedAddresses(t *testing.T) {
	n := network{name: "holdfast-x", subnet: netip.MustParsePrefix("10.88.3.0/24")}
	seen := map[netip.Addr]bool{n.balancer(): true, n.gateway(): true}
	number := 2
	for ; ; number++ {
		a, err := n.added(number)
		if err != nil {
			break
		}
		if seen[a] || !n.subnet.Contains(a) {
			t.Fatalf("node %d gets %s", number, a)
		}
		seen[a] = true
	}
	if number < 90 {
		t.Errorf("no address for node %d", number)
	}
}

func scaled(names ...string) *Cluster {
	c := &Cluster{spec: clusters.Default(), network: network{name: "holdfast-x"}}
	c.spec.Metadata.Name = "x"
	for _, name := range names {
		n := c.newNode(name, netip.MustParseAddr("10.88.0.2"), controlPlaneRole)
		n.spec = c.nodeSpec(nodeNumber(name))
		c.nodes = append(c.nodes, n)
	}
	return c
}

func TestRemovable(t *testing.T) {
	// docker says that no container runs.
	fakeDocker(t, `echo "[{\"Name\":\"/x\",\"State\":{\"Running\":false}}]"`)
	for _, test := range []struct {
		names  []string
		remove string
		says   string
	}{
		{[]string{"x-control-plane", "x-control-plane2"}, "x-control-plane3", "the nodes are x-control-plane, x-control-plane2"},
		{[]string{"x-control-plane"}, "x-control-plane", "it is the last one"},
		{[]string{"x-control-plane", "x-control-plane2"}, "x-control-plane", "without a balancer"},
		{[]string{"x-control-plane", "x-control-plane2"}, "x-control-plane2", "0 of 2 etcd members answer"},
	} {
		err := scaled(test.names...).RemoveNode(t.Context(), test.remove)
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "failed to remove node "+test.remove+" from cluster x") {
			t.Errorf("%v of %v: %v", test.remove, test.names, err)
		}
	}
	if _, err := scaled("x-control-plane").AddNode(t.Context()); err == nil || !strings.Contains(err.Error(), "on x-control-plane is down") {
		t.Error(err)
	}
}

// A container that is to go is removed with its volumes, after its guard, and its logs
// stay.
func TestDiscard(t *testing.T) {
	dir := fakeDocker(t, engineOfOne)
	setState(t, dir, "off")
	c := scaled("x-control-plane2")
	c.o.LogDir = filepath.Join(t.TempDir(), "logs")
	n := c.nodes[0]
	g, err := startGuard(guardOrder{Container: n.name, Verb: "start", After: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n.guards = guards{"start": g}
	if err := n.discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.gone:
	default:
		t.Error("its guard goes on")
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "cp x-control-plane2:/var/log/. " + filepath.Join(c.o.LogDir, n.name) + "\nrm --force --volumes x-control-plane2\n"; !strings.HasSuffix(string(calls), want) {
		t.Errorf("no %q in:\n%s", want, calls)
	}
}

// The node's API objects are deleted immediately; an object that is already gone is fine.
func TestForget(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.String())
		switch {
		case len(asked) == 1:
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(r.URL.Path, "/nodes/"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer api.Close()
	c := scaled("x-control-plane")
	c.entrances = []framework.Entrance{{Config: &rest.Config{Host: api.URL}}}
	if err := c.forget(t.Context(), "x-control-plane2"); err != nil {
		t.Fatal(err)
	}
	want := []string{"DELETE /api/v1/nodes/x-control-plane2", "DELETE /api/v1/nodes/x-control-plane2",
		"DELETE /api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3Dx-control-plane2"}
	if !slices.Equal(asked, want) {
		t.Error(asked)
	}
}

// The balancer's file is replaced by one with other servers, in one step.
func TestRebalance(t *testing.T) {
	dir := fakeDocker(t, `case "$*" in
*"cat /home/envoy/cds.yaml") cat `+mustAbs(t, "balancer/testdata/cds.yaml")+`;;
"cp - "*) cat > $DIR/put;;
esac`)
	c := scaled("x-control-plane2", "x-control-plane4")
	c.balancer = c.newNode("x-external-load-balancer", netip.MustParseAddr("10.88.0.250"), balancerRole)
	if err := c.rebalance(t.Context(), c.nodes); err != nil {
		t.Fatal(err)
	}
	put, _ := os.ReadFile(filepath.Join(dir, "put"))
	for _, want := range []string{"home/envoy/cds.yaml.tmp", "address: x-control-plane2", "address: x-control-plane4"} {
		if !strings.Contains(string(put), want) {
			t.Errorf("no %q in:\n%s", want, put)
		}
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "exec x-external-load-balancer mv /home/envoy/cds.yaml.tmp /home/envoy/cds.yaml\n"; !strings.HasSuffix(string(calls), want) {
		t.Errorf("no %q in:\n%s", want, calls)
	}
}

// Settings cannot be changed in the balancer's container: a container beside it does that.
func TestBalancersSysctls(t *testing.T) {
	dir := fakeDocker(t, `case "$1 $2" in
"container inspect") echo '[{"Name": "/x-external-load-balancer", "Config": {"Image": "balancer:1"}}]';;
esac`)
	c := scaled("x-control-plane2")
	b := c.newNode("x-external-load-balancer", netip.MustParseAddr("10.88.0.250"), balancerRole)
	if err := b.setSysctls(t.Context(), map[string]string{"net.ipv4.tcp_retries2": "7"}); err != nil {
		t.Fatal(err)
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	for _, want := range []string{"--privileged --network container:x-external-load-balancer", "balancer:1", "/proc/sys/net/ipv4/tcp_retries2 7"} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("no %q in:\n%s", want, calls)
		}
	}
	if err := b.setSysctls(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if more, _ := os.ReadFile(filepath.Join(dir, "calls")); len(more) != len(calls) {
		t.Errorf("nothing to set, and docker was asked:\n%s", more[len(calls):])
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// Who is not a party any more has no links.
func TestReplaceParties(t *testing.T) {
	n := agent.NewNetwork("x", []agent.Party{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	n.Replace(n.All()[:2])
	if got := n.Parties(); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
	if _, err := n.LinkState(t.Context(), "a", "c"); err == nil || !strings.Contains(err.Error(), "its hosts are a, b") {
		t.Error(err)
	}
}
