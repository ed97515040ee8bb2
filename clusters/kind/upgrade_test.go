package kind

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// told is the API's state of nodes whose kubelets and API servers have these versions; an empty
// version means no API server.
func told(versions map[string][2]string) looked {
	l := looked{nodes: map[string]corev1.Node{}, pods: map[string]map[framework.Component]corev1.Pod{}}
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for name, v := range versions {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.NodeInfo.KubeletVersion = v[0]
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		l.nodes[name], l.pods[name] = node, map[framework.Component]corev1.Pod{}
		for _, c := range append([]framework.Component{framework.Etcd}, components...) {
			if v[1] == "" {
				continue
			}
			l.pods[name][c] = corev1.Pod{Status: ready,
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "registry.example:5000/" + string(c) + ":" + v[1]}}}}
		}
	}
	return l
}

// What must not be is refused, with what to do; what is to come is not.
func TestUpgradeRefusal(t *testing.T) {
	c := scaled("a", "b")
	a, b := c.nodes[0], c.nodes[1]
	w := c.newNode("w", netip.Addr{}, workerRole)
	for _, test := range []struct {
		what                string
		node                *node
		to, configured      string
		kubeletA, apiA      string
		kubeletB, apiB      string
		kubeletW            string
		says                string
		unsupported, addons bool
	}{
		{what: "the first node", node: a, to: "v1.37.1"},
		{what: "the last node", node: b, to: "v1.37.1", configured: "v1.37.1", kubeletA: "v1.37.1", apiA: "v1.37.1", addons: true},
		{what: "again, where only the kubelet is old", node: a, to: "v1.37.1", configured: "v1.37.1", apiA: "v1.37.1"},
		{what: "the other is held down", node: a, to: "v1.37.1", apiB: "-", addons: true},
		{what: "a worker in the end", node: w, to: "v1.37.1", configured: "v1.37.1", kubeletA: "v1.37.1", apiA: "v1.37.1", kubeletB: "v1.37.1", apiB: "v1.37.1"},
		{what: "a worker too early", node: w, to: "v1.37.1", configured: "v1.37.1", kubeletA: "v1.37.1", apiA: "v1.37.1",
			says: "a kubelet may not be newer than an API server, and that of b is v1.36.3: upgrade the control-plane nodes first"},
		{what: "two minor versions", node: a, to: "v1.38.0", says: "API servers must be within one minor version, and that of a is v1.36.3: upgrade all control-plane nodes to v1.37 first"},
		{what: "two from the other", node: a, to: "v1.38.0", configured: "v1.37.1", kubeletA: "v1.37.1", apiA: "v1.37.1", says: "that of b is v1.36.3: upgrade all control-plane nodes to v1.37"},
		{what: "back", node: a, to: "v1.35.8", says: "it runs v1.36.3, and kubeadm cannot downgrade a node", unsupported: true},
		{what: "back where the kubelet is old", node: a, to: "v1.36.3", configured: "v1.37.1", apiA: "v1.37.1", says: "it runs v1.37.1", unsupported: true},
		{what: "less than the others", node: b, to: "v1.37.0", configured: "v1.37.1", kubeletA: "v1.37.1", apiA: "v1.37.1", says: "is already for v1.37.1: upgrade it to that"},
		{what: "an old worker", node: a, to: "v1.37.1", kubeletW: "v1.33.2", says: "three minor versions older than an API server, and that of w is v1.33.2: upgrade that node first"},
		{what: "an ancient version", node: a, to: "v1.31.9", kubeletA: "v1.31.1", apiA: "v1.31.1", kubeletB: "v1.31.1", apiB: "v1.31.1", says: "before v1.32.0", unsupported: true},
	} {
		or := func(v string) string {
			if v == "" {
				return "v1.36.3"
			}
			return strings.TrimPrefix(v, "-")
		}
		l := told(map[string][2]string{"a": {or(test.kubeletA), or(test.apiA)}, "b": {or(test.kubeletB), or(test.apiB)}, "w": {or(test.kubeletW), ""}})
		err := l.refusal(test.node, test.to, or(test.configured), c.nodes, []*node{w})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) || errors.Is(err, errors.ErrUnsupported) != test.unsupported {
			t.Errorf("%s: %v", test.what, err)
		}
		if err == nil && l.addonsFollow(test.node, test.to) != test.addons {
			t.Errorf("%s: add-ons follow: %t", test.what, !test.addons)
		}
	}
	// The previous upgrade of b was interrupted after its API server.
	l := told(map[string][2]string{"a": {"v1.36.3", "v1.36.3"}, "b": {"v1.35.8", "v1.36.3"}})
	l.pods["b"][framework.Scheduler] = told(map[string][2]string{"b": {"", "v1.35.8"}}).pods["b"][framework.Scheduler]
	if err := l.refusal(a, "v1.37.1", "v1.36.3", c.nodes, nil); err == nil || !strings.Contains(err.Error(), "that of b is v1.35.8: complete the upgrade of that node to v1.36 first") {
		t.Error(err)
	}
	l = told(map[string][2]string{"b": {"v1.36.3", "v1.36.3"}})
	if err := l.refusal(a, "v1.37.1", "v1.36.3", c.nodes, nil); err == nil || !strings.Contains(err.Error(), "has not registered it") {
		t.Error(err)
	}
	if err := l.refusal(b, "v1.37.1", "v1.36.3", c.nodes, nil); err == nil || !strings.Contains(err.Error(), "has no node a,") {
		t.Error(err)
	}
}

// It is said what of a node has not changed yet.
func TestNotYet(t *testing.T) {
	n := scaled("a").nodes[0]
	l := told(map[string][2]string{"a": {"v1.36.3", "v1.37.1"}})
	scheduler := l.pods["a"][framework.Scheduler]
	scheduler.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "it begins"}
	manager := l.pods["a"][framework.ControllerManager]
	manager.Spec.Containers[0].Image = "registry.example/kube-controller-manager:v1.36.3"
	delete(l.pods["a"], framework.Etcd)
	err := l.notYet(n, "v1.37.1")
	for _, want := range []string{"its kubelet is v1.36.3", "kube-controller-manager is v1.36.3", "kube-scheduler is not ready: it begins", "etcd has no pod"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if l.runs(n, "v1.37.1") || !told(map[string][2]string{"a": {"v1.37.1", "v1.37.1"}}).runs(n, "v1.37.1") {
		t.Error("it is not told what runs")
	}
}

// upgradable is a cluster with a worker that kubeadm has set up with a version, and whose
// kubelets have these. Its API has no static pods.
func upgradable(t *testing.T, configured string, kubelets map[string]string) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/nodes":
			var items []string
			for name, v := range kubelets {
				items = append(items, fmt.Sprintf(`{"metadata":{"name":%q},"status":{"nodeInfo":{"kubeletVersion":%q},"conditions":[{"type":"Ready","status":"True"}]}}`, name, v))
			}
			fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
		case "/api/v1/namespaces/kube-system/configmaps/kubeadm-config":
			fmt.Fprintf(w, `{"data":{"ClusterConfiguration":"kind: ClusterConfiguration\nkubernetesVersion: %s\n"}}`, configured)
		default:
			fmt.Fprint(w, `{"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	c := scaled("x-control-plane", "x-control-plane2")
	c.workers = []*node{c.newNode("x-worker", netip.MustParseAddr("10.88.0.9"), workerRole)}
	c.entrances = []framework.Entrance{{Config: &rest.Config{Host: server.URL}}}
	c.dir = t.TempDir()
	c.o.Progress = func(string) {}
	c.o.EnsureImage = func(_ context.Context, version string) (string, error) { return "holdfast/node:" + version, nil }
	return c
}

// wantCalls looks for what docker was asked for, in that order.
func wantCalls(t *testing.T, dir string, want ...string) {
	t.Helper()
	b, _ := os.ReadFile(filepath.Join(dir, "calls"))
	at := 0
	for _, w := range want {
		i := strings.Index(string(b[at:]), w)
		if i < 0 {
			t.Fatalf("no %q in its place in:\n%s", w, b)
		}
		at += i + len(w)
	}
}

// What is refused has touched nothing.
func TestUpgradeNothingDone(t *testing.T) {
	dir := fakeDocker(t, `echo "[{\"Name\":\"/x\",\"State\":{\"Running\":false}}]"`)
	c := upgradable(t, "v1.36.3", map[string]string{"x-control-plane": "v1.36.3", "x-control-plane2": "v1.36.3", "x-worker": "v1.36.3"})
	for _, test := range []struct{ node, to, says string }{
		{"x-control-plane7", "v1.37.1", "no such node; the nodes are x-control-plane, x-control-plane2, x-worker"},
		{"x-control-plane", "newest", "is not a version such as"},
		{"x-worker", "v1.37.1", "upgrade the control-plane nodes first"},
		{"x-control-plane", "1.35.1", "kubeadm cannot downgrade a node"},
		{"x-control-plane", "v1.37.1", "its container is not running"},
	} {
		err := c.UpgradeNode(t.Context(), test.node, test.to)
		if !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), test.says) ||
			!strings.Contains(err.Error(), "failed to upgrade "+test.node+" of cluster x to Kubernetes "+test.to) {
			t.Errorf("%s to %s: %v", test.node, test.to, err)
		}
		if check := c.CheckUpgrade(t.Context(), test.node, test.to); check == nil || check.Error() != err.Error() {
			t.Errorf("%s to %s: %v", test.node, test.to, check)
		}
	}
	b, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if got := string(b); got != strings.Repeat("container inspect x-control-plane\n", 2) {
		t.Errorf("docker was asked:\n%s", got)
	}
}

const upgradingDocker = `case "$*" in
` + connectAgents + `"container inspect "*) echo "[{\"Name\":\"/x\",\"State\":{\"Running\":true}}]";;
*"images export"*) echo parts;;
*"images import"*) cat >> $DIR/received;;
*"/bin/kubeadm upgrade"*) cat $DIR/kubeadm; [ ! -f $DIR/fails ] || { echo "etcd cluster is not healthy" >&2; exit 1; };;
esac`

// A control-plane node receives everything before kubeadm runs, as do others on which add-ons
// will run, and its kubelet is started last. Common steps are done once.
func TestUpgradeOrder(t *testing.T) {
	dir := fakeDocker(t, upgradingDocker)
	serveAgents(t, dir, accept)
	says := `[upgrade/staticpods] Preparing for "etcd" upgrade
[upgrade/staticpods] Component "etcd" upgraded successfully!
[addons] Applied essential addon: CoreDNS
`
	if err := os.WriteFile(filepath.Join(dir, "kubeadm"), []byte(says), 0o600); err != nil {
		t.Fatal(err)
	}
	c := upgradable(t, "v1.36.3", nil)
	var steps []string
	ctx := framework.WithSteps(t.Context(), func(s framework.Step) error { steps = append(steps, s.Node+": "+s.Name); return nil })
	u := &upgrade{node: c.nodes[0], version: "v1.37.1", image: "holdfast/node:v1.37.1", apply: true, needy: c.workers}
	if err := u.change(ctx); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, dir, "run --detach --name holdfast-upgrade-x ", "--label dev.holdfast.upgrade=x", "images export", "rm --force --volumes holdfast-upgrade-x\n",
		"exec --interactive x-control-plane sh -c", "images import",
		"exec --interactive x-worker sh -c", "images import", "exec x-worker rm -rf /var/lib/holdfast-upgrade\n",
		"exec x-control-plane sh -c exec /var/lib/holdfast-upgrade/bin/kubeadm upgrade apply v1.37.1 --yes $(sed ", "--skip-phases=preflight\n",
		"exec x-control-plane sh -c", "/usr/bin/.holdfast-new", "printf %s v1.37.1 >/kind/version\nsystemctl daemon-reload\nsystemctl restart kubelet.service\n",
		"exec x-control-plane rm -rf /var/lib/holdfast-upgrade\n")
	if b, _ := os.ReadFile(filepath.Join(dir, "received")); string(b) != "parts\nparts\n" {
		t.Errorf("nodes have received %q", b)
	}
	if want := []string{"x-control-plane: restart etcd", "x-control-plane: apply add-on CoreDNS", "x-control-plane: restart kubelet in v1.37.1"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q", steps)
	}
	// A node that is added now is of that version, and has its image.
	if n := c.nodeSpec(4); n.KubernetesVersion != "v1.37.1" || !u.upgraded {
		t.Errorf("%+v, %t", n, u.upgraded)
	}

	if err := os.Remove(filepath.Join(dir, "calls")); err != nil {
		t.Fatal(err)
	}
	u = &upgrade{node: c.nodes[1], version: "v1.37.1", image: "holdfast/node:v1.37.1"}
	if err := u.change(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if strings.Contains(string(b), "images export") {
		t.Error("the image is taken apart twice")
	}
	wantCalls(t, dir, "bin/kubeadm upgrade node $(sed ")
}

// Where kubeadm fails, it is said what it said, and nothing of it stays.
func TestUpgradeFails(t *testing.T) {
	dir := fakeDocker(t, upgradingDocker)
	serveAgents(t, dir, accept)
	for _, file := range []string{"fails", "kubeadm"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := upgradable(t, "v1.36.3", nil)
	u := &upgrade{node: c.nodes[0], version: "v1.37.1", image: "holdfast/node:v1.37.1", apply: true}
	if err := u.carryOut(t.Context()); err == nil || !strings.Contains(err.Error(), "kubeadm did not upgrade it") || !strings.Contains(err.Error(), "etcd cluster is not healthy") {
		t.Error(err)
	}
	wantCalls(t, dir, "bin/kubeadm upgrade apply", "exec x-control-plane rm -rf /var/lib/holdfast-upgrade\n")
	if b, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(b), "kubelet.service") || u.upgraded || c.upgraded != "" {
		t.Error("it went on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.kubeadm(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantCalls(t, dir, "exec x-control-plane pkill -x kubeadm\n")
	// Nothing half-made is taken for the parts of a version.
	if err := os.Remove(c.partsFile("v1.37.1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.parts(ctx, "v1.37.1", "i"); err == nil {
		t.Error("it does not notice the end of its context")
	}
	if left, _ := os.ReadDir(c.dir); len(left) > 0 {
		t.Error(left)
	}
}

// A worker is upgraded, and known to be, when its kubelet says so; the parts go with the
// last one that needs them.
func TestUpgradeWorker(t *testing.T) {
	dir := fakeDocker(t, upgradingDocker)
	serveAgents(t, dir, accept)
	if err := os.WriteFile(filepath.Join(dir, "kubeadm"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := upgradable(t, "v1.37.1", map[string]string{"x-worker": "v1.37.1"})
	for _, n := range c.nodes {
		n.spec.KubernetesVersion = "v1.37.1"
	}
	u := &upgrade{node: c.workers[0], version: "v1.37.1", image: "holdfast/node:v1.37.1"}
	if err := u.carryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, dir, "exec x-worker sh -c exec /var/lib/holdfast-upgrade/bin/kubeadm upgrade node --skip-phases=preflight\n")
	if got := c.workers[0].spec.KubernetesVersion; got != "v1.37.1" {
		t.Error(got)
	}
	if left, _ := os.ReadDir(c.dir); len(left) > 0 {
		t.Error(left)
	}
	if err := c.UpgradeNode(t.Context(), "x-worker", "v1.37.1"); err != nil {
		t.Errorf("what runs the version already: %v", err)
	}
	if got := strings.Join(c.UpgradeOrder(), " "); got != "x-control-plane x-control-plane2 x-worker" {
		t.Error(got)
	}
	if err := servesVersion([]byte(`{"gitVersion":"v1.36.3"}`), "v1.37.1"); err == nil || !strings.Contains(err.Error(), "it is v1.36.3") {
		t.Error(err)
	}
	// kubeadm receives the patches that kind configured.
	config := filepath.Join(t.TempDir(), "kubeadm.conf")
	if err := os.WriteFile(config, []byte(theirConfig("    node-ip: 10.88.0.3")), 0o600); err != nil {
		t.Fatal(err)
	}
	control := &upgrade{node: c.nodes[0], version: "v1.37.1"}
	script := strings.NewReplacer("exec "+upgradeDir+"/bin/kubeadm", "echo", kubeadmConfig, config).Replace(control.command())
	if got := shell(t, script); got != "upgrade node --patches=/etc/kubernetes/patches --skip-phases=preflight\n" {
		t.Errorf("%q", got)
	}
}

func shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
