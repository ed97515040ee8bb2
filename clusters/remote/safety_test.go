package remote

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// api serves answers by path, of which an empty one is an error of the server, and returns the inventory
// of a cluster whose API servers all are that one.
func api(t *testing.T, answers map[string]string, nodes ...clusters.InventoryNode) *access {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, ok := answers[r.URL.Path]; {
		case !ok:
			http.NotFound(w, r)
		case body == "":
			http.Error(w, "etcd failed", http.StatusInternalServerError)
		default:
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ca := filepath.Join(filepath.Dir(file), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := fmt.Sprintf("clusters:\n- {name: c, cluster: {server: %q, certificate-authority: %q}}\nusers:\n- {name: u, user: {token: t}}\n"+
		"contexts:\n- {name: x, context: {cluster: c, user: u}}\ncurrent-context: x\n", server.URL, ca)
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	i := &clusters.Inventory{Metadata: clusters.Metadata{Name: "theirs"}, Spec: clusters.InventorySpec{Kubeconfig: file}}
	if len(nodes) == 0 {
		n := testNode()
		n.APIServer = strings.TrimPrefix(server.URL, "https://")
		nodes = append(nodes, n)
	}
	i.Spec.Nodes = nodes
	a, err := reach(i)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// quiet is what a cluster answers in which nothing is under way.
func quiet(more ...string) map[string]string {
	all := map[string]string{
		"/api/v1/nodes": `{"items": [{"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
			{"metadata": {"name": "worker"}, "spec": {"unschedulable": true}}]}`,
		"/api/v1/namespaces/kube-system": `{"metadata": {"uid": "u"}}`,
		"/readyz":                        "ok",
		"/version":                       `{"gitVersion": "v1.37.1"}`,
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// capi is a cluster with a control plane of Cluster API that has a machine.
func capi(want int, status, node string) map[string]string {
	return quiet(controlPlanesPaths[1], fmt.Sprintf(`{"items": [{"metadata": {"namespace": "a", "name": "cp"}, "spec": {"replicas": %d}, "status": {%s}}]}`, want, status),
		machinesPaths[1], fmt.Sprintf(`{"items": [{"metadata": {"namespace": "a", "labels": {%q: "cp"}}, "status": {"nodeRef": {"name": "%s"}}}]}`, machineOwner, node))
}

// openshift is an object whose condition Progressing has a status.
func openshift(name, status, message string) string {
	return fmt.Sprintf(`{"items": [{"metadata": {"name": %q}, "status": {"conditions": [{"type": "Progressing", "status": %q, "message": %q}]}}]}`, name, status, message)
}

func TestSafe(t *testing.T) {
	const health = "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks"
	for _, tc := range []struct {
		name    string
		answers map[string]string
		want    string
	}{
		{"quiet", quiet(), ""},
		{"cordoned", quiet("/api/v1/nodes", `{"items": [{"metadata": {"name": "node-1"}, "spec": {"unschedulable": true}}]}`), "node node-1 is cordoned"},
		{"not ready", quiet("/api/v1/nodes", `{"items": [{"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}]}`),
			"node node-1 is not ready (NodeStatusUnknown)"},
		{"not ready, under another name than its host's", quiet("/api/v1/nodes", `{"items": [{"metadata": {"name": "cp-a"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.11"}], "conditions": [{"type": "Ready", "status": "False"}]}}]}`),
			"node node-1 is not ready"},
		{"what is left of the Node of an earlier machine with its address", quiet("/api/v1/nodes", `{"items": [{"metadata": {"name": "node-1"}},
			{"metadata": {"name": "old"}, "spec": {"unschedulable": true}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.11"}]}}]}`), ""},
		{"a remediator", quiet(health, `{"items": [{"metadata": {"namespace": "a", "name": "b"}}]}`), "the health check a/b may replace a node"},
		{"a remediator that is paused", quiet(health, `{"items": [{"metadata": {"name": "b", "annotations": {"cluster.x-k8s.io/paused": ""}}}]}`), ""},
		{"Medik8s", quiet("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", `{"items": [{"metadata": {"name": "b"}}]}`), "the health check b may replace a node"},
		{"Medik8s that is paused", quiet("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", `{"items": [{"metadata": {"name": "b"}, "spec": {"pauseRequests": ["x"]}}]}`), ""},
		{"Litmus", quiet("/apis/litmuschaos.io/v1alpha1/chaosengines", `{"items": [{"metadata": {"name": "e"}, "spec": {"engineState": "active"}}]}`), "the chaos engine e of Litmus is active"},
		{"Litmus at rest", quiet("/apis/litmuschaos.io/v1alpha1/chaosengines", `{"items": [{"metadata": {"name": "e"}, "spec": {"engineState": "stop"}}]}`), ""},
		{"Chaos Mesh", quiet("/apis/chaos-mesh.org/v1alpha1", `{"resources": [{"name": "podchaos", "kind": "PodChaos"}, {"name": "schedules", "kind": "Schedule"}]}`,
			"/apis/chaos-mesh.org/v1alpha1/podchaos", `{"items": [{"metadata": {"name": "p"}}]}`), "Chaos Mesh has the PodChaos p"},
		{"a schedule of Chaos Mesh", quiet("/apis/chaos-mesh.org/v1alpha1", `{"resources": [{"name": "schedules", "kind": "Schedule"}]}`,
			"/apis/chaos-mesh.org/v1alpha1/schedules", `{"items": [{"metadata": {"name": "s"}}]}`), "Chaos Mesh has the Schedule s: delete or pause it"},
		{"a paused one", quiet("/apis/chaos-mesh.org/v1alpha1", `{"resources": [{"name": "schedules", "kind": "Schedule"}]}`,
			"/apis/chaos-mesh.org/v1alpha1/schedules", `{"items": [{"metadata": {"name": "s", "annotations": {"experiment.chaos-mesh.org/pause": "true"}}}]}`), ""},
		{"a Plan that is applied", quiet(plansPath, `{"items": [{"metadata": {"namespace": "system-upgrade", "name": "server"}, "status": {"applying": ["node-1"]}}]}`),
			"the Plan system-upgrade/server of the system upgrade controller is being applied to node-1"},
		{"a Plan that was applied", quiet(plansPath, `{"items": [{"metadata": {"name": "server"}, "status": {"latestVersion": "v1.37.1", "applying": []}}]}`), ""},
		{"a control plane that is rolled out", capi(3, `"replicas": 4, "updatedReplicas": 1`, "node-1"), "the control plane a/cp of Cluster API is being rolled out: it wants 3 machines and has 4"},
		{"with as many machines as it wants", capi(3, `"replicas": 3, "updatedReplicas": 1`, "node-1"), "the control plane a/cp of Cluster API is being rolled out"},
		{"of v1beta2", capi(3, `"replicas": 3, "upToDateReplicas": 2`, "node-1"), "the control plane a/cp of Cluster API is being rolled out"},
		{"that is scaled", capi(5, `"replicas": 3, "updatedReplicas": 3`, "node-1"), "it wants 5 machines and has 3"},
		{"of another cluster", capi(3, `"replicas": 4, "updatedReplicas": 1`, "other-1"), ""},
		{"of Nodes under other names than their hosts'", capi(3, `"replicas": 4, "updatedReplicas": 1`, `other-1"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.11"}], "x": {"x": "`), "is being rolled out"},
		{"a control plane at rest", capi(3, `"replicas": 3, "updatedReplicas": 3`, "node-1"), ""},
		{"a control plane at rest, of v1beta2", capi(3, `"replicas": 3, "upToDateReplicas": 3`, "node-1"), ""},
		{"a control plane that does not say what is up to date", capi(3, `"replicas": 3`, "node-1"), ""},
		{"OpenShift that is updated", quiet(clusterVersionPath, openshift("version", "True", "Working towards 4.20.1")), "the version of OpenShift (version) is progressing: Working towards 4.20.1"},
		{"an operator of OpenShift that rolls out", quiet(clusterOperatorsPath, openshift("etcd", "True", "1 node is at revision 7")), "the operator (etcd) is progressing: 1 node is at revision 7"},
		{"another operator of OpenShift", quiet(clusterOperatorsPath, openshift("console", "True", "x")), ""},
		{"OpenShift at rest", quiet(clusterVersionPath, openshift("version", "False", "Cluster version is 4.20.1"), clusterOperatorsPath, openshift("etcd", "False", "x")), ""},
	} {
		err := api(t, tc.answers).safe(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}

	// An API server without its etcd member.
	alone := quiet()
	delete(alone, "/readyz")
	if err := api(t, alone).safe(t.Context()); !errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), "the API server on node-1 is not ready") {
		t.Errorf("an API server that is not ready: %v", err)
	}

	// Two API servers of different versions.
	a, other := api(t, quiet()), api(t, quiet("/version", `{"gitVersion": "v1.36.3"}`))
	a.entrances = append(a.entrances, other.entrances...)
	if err := a.safe(t.Context()); !errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), "runs v1.37.1, the one on node-1 runs v1.36.3") {
		t.Errorf("two versions: %v", err)
	}
}

// TestBrokenConnections: a connection or two that break are repeated, an answer is not.
func TestBrokenConnections(t *testing.T) {
	a := api(t, quiet())
	tries, broken := 0, 2
	a.entrances[0].Config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tries++; err == nil && tries <= broken {
			err = conn.Close()
		}
		return conn, err
	}
	for _, test := range []struct {
		path          string
		broken, tries int
		good          bool
	}{
		{"/readyz", requestTries - 1, requestTries, true},
		{"/readyz", requestTries, requestTries, false},
		{"/unknown", 0, 1, false},
	} {
		tries, broken = 0, test.broken
		if _, err := get(t.Context(), a.entrances[0], test.path); (err == nil) != test.good || tries != test.tries {
			t.Errorf("%+v: %d tries, %v", test, tries, err)
		}
	}
}

// TestPermitted: without consent nothing is done, and with that of another cluster neither.
func TestPermitted(t *testing.T) {
	const system = "/api/v1/namespaces/kube-system"
	consent := func(uid, levels string) string {
		return fmt.Sprintf(`{"data": {"clusterUID": %q, "expires": "2999-01-01T00:00:00Z", "levels": %q}}`, uid, levels)
	}
	cordoned := `{"items": [{"metadata": {"name": "node-1"}, "spec": {"unschedulable": true}}]}`
	for _, tc := range []struct {
		name    string
		answers map[string]string
		want    error
		observe error // of a run without faults
	}{
		{"no consent", quiet(system, `{"metadata": {"uid": "u"}}`), ErrNoConsent, ErrNoConsent},
		{"of another cluster", quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, consent("v", "process")), ErrNoConsent, ErrNoConsent},
		{"to faults", quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, consent("u", "process")), nil, nil},
		{"to faults while a node is cordoned", quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, consent("u", "process"), "/api/v1/nodes", cordoned), clusters.ErrUnsafe, nil},
		{"to a look at it while a node is cordoned", quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, consent("u", "read-only"), "/api/v1/nodes", cordoned), ErrNoConsent, nil},
	} {
		a := api(t, tc.answers)
		spec := clusters.Default()
		spec.Spec.Inventory = a.Inventory
		if err := (Provider{}).Permit(t.Context(), spec, []record.Effect{record.EffectDown}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if err := (Provider{}).Permit(t.Context(), spec); !errors.Is(err, tc.observe) {
			t.Errorf("%s, without faults: %v, want %v", tc.name, err, tc.observe)
		}
		for harmless, want := range map[bool]error{false: tc.want, true: tc.observe} {
			if strings.Contains(tc.name, "a look") {
				want = nil // only the plan has faults
			}
			if err := (&Observed{access: a, harmless: harmless}).Permitted(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s, during a run, harmless %t: %v, want %v", tc.name, harmless, err, want)
			}
		}
	}
}

// TestManyNodes: they are requested page by page.
func TestManyNodes(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := r.URL.Query().Get("continue")
		asked = append(asked, next)
		if next == "" {
			fmt.Fprint(w, `{"metadata": {"continue": "a+/="}, "items": [{"metadata": {"name": "node-1"}}]}`)
		} else {
			fmt.Fprint(w, `{"items": [{"metadata": {"name": "node-2"}}]}`)
		}
	}))
	defer server.Close()
	a := &access{Inventory: &clusters.Inventory{}, entrances: []framework.Entrance{{Name: "node-1", Kind: framework.EntranceAPIServer, Config: &rest.Config{Host: server.URL}}}}
	nodes, err := a.nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[1].Name != "node-2" || !slices.Equal(asked, []string{"", "a+/="}) {
		t.Errorf("nodes %v, pages %q, error %v", nodes, asked, err)
	}
}

// TestNarrowedConsent: what the owner withdraws during a run is refused from the next scenario, and what
// is added is not permitted: the run has taken no snapshot for it.
func TestNarrowedConsent(t *testing.T) {
	answers := quiet("/api/v1/namespaces/kube-system", `{"metadata": {"uid": "u"}}`)
	c := &Cluster{Observed: &Observed{access: api(t, answers), spec: clusters.Default()}, consent: Consent{Expires: time.Now().Add(time.Hour), Levels: []Level{Processes, Network, QuorumLoss}}}
	c.broken.groups = []group{{nodes: []string{"node-1"}}}
	for _, tc := range []struct {
		levels string
		want   map[Level]bool
	}{
		{"process,network,quorum-loss", map[Level]bool{Processes: true, Network: true, QuorumLoss: true}},
		{"process,data", map[Level]bool{Processes: true, Network: false, QuorumLoss: false, Data: false}},
		{"read-only", map[Level]bool{Processes: false, Network: false, QuorumLoss: false, Data: false}},
	} {
		answers[consentPath] = fmt.Sprintf(`{"data": {"clusterUID": "u", "expires": "2999-01-01T00:00:00Z", "levels": %q}}`, tc.levels)
		if err := c.Permitted(t.Context()); err != nil {
			t.Fatal(err)
		}
		for l, want := range tc.want {
			if err := c.permits(l, "do that"); (err == nil) != want || !want && !errors.Is(err, ErrNoConsent) {
				t.Errorf("consent to %s, level %s: %v", tc.levels, l, err)
			}
		}
		for nothing, level := range map[bool]Level{true: Processes, false: Data} {
			if err := c.CheckPromise(framework.Undoing{Nothing: nothing}); (err == nil) != tc.want[level] {
				t.Errorf("consent to %s, a fault that changes nothing: %t: %v", tc.levels, nothing, err)
			}
		}
		if err := c.breaks("x", []string{"node-1"}, time.Hour); (err == nil) != tc.want[QuorumLoss] {
			t.Errorf("consent to %s, the only node: %v", tc.levels, err)
		}
	}
}

// TestPermitBesideAnother: a cluster that is not safe may suffer from the fault of another run, which
// the error then names. During a run its own agents are not mistaken for those of another.
func TestPermitBesideAnother(t *testing.T) {
	const system = "/api/v1/namespaces/kube-system"
	cordoned := `{"items": [{"metadata": {"name": "node-1"}, "spec": {"unschedulable": true}}]}`
	consent := `{"data": {"clusterUID": "u", "expires": "2999-01-01T00:00:00Z", "levels": "process"}}`
	for ago, want := range map[string]bool{"1": true, "100": false, "": false} {
		fakeSSH(t, ago+"\n")
		a := api(t, quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, consent, "/api/v1/nodes", cordoned))
		a.Spec.Nodes[0].SSH = "node-1"
		spec := clusters.Default()
		spec.Spec.Inventory = a.Inventory
		another := func(err error) bool {
			return strings.Contains(fmt.Sprint(err), "another run of holdfast used the agent on node-1")
		}
		err := (Provider{}).Permit(t.Context(), spec, []record.Effect{record.EffectDown})
		if !errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), "node-1 is cordoned") || another(err) != want {
			t.Errorf("an agent that was used %q s ago: %v", ago, err)
		}
		if err := (&Observed{access: a}).Permitted(t.Context()); !errors.Is(err, clusters.ErrUnsafe) || another(err) {
			t.Errorf("during a run: %v", err)
		}
	}
}

// TestDescribeSilentServer: an API server that does not report its version, or answers only errors, keeps
// no cluster from being described, and has no version in a record; without any, there is nothing to
// describe.
func TestDescribeSilentServer(t *testing.T) {
	pods := []string{"/api/v1/namespaces/kube-system/pods", `{"items": []}`}
	silent, dead := quiet(pods...), quiet(pods...)
	delete(silent, "/version")
	for path := range dead {
		dead[path] = ""
	}
	a := api(t, quiet(pods...))
	for want, answers := range map[string]map[string]string{"failed to read the version of the API server on node-1": silent, "failed to list the nodes": dead} {
		other := api(t, answers)
		second := other.Spec.Nodes[0]
		second.Name, second.Address = "node-2", second.Address.Next()
		e := other.entrances[0]
		e.Name, e.Node = second.Name, second.Name
		for _, silentFirst := range []bool{false, true} {
			b := &access{Inventory: &clusters.Inventory{Metadata: a.Metadata, Spec: a.Spec}, entrances: append(a.entrances[:1:1], e)}
			b.Spec.Nodes = append(a.Spec.Nodes[:1:1], second)
			if silentFirst {
				slices.Reverse(b.Spec.Nodes)
				slices.Reverse(b.entrances)
			}
			spec, err := b.describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if spec.Spec.KubernetesVersion != "v1.37.1" {
				t.Errorf("the version is %q", spec.Spec.KubernetesVersion)
			}
			v := (&Observed{access: b, spec: spec}).Versions()
			if _, known := v["node-2"]["kube-apiserver"]; known || v["node-1"]["kube-apiserver"] != "v1.37.1" || len(v) != 2 {
				t.Errorf("the versions are %v", v)
			}
		}
		if _, err := other.describe(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no API server answers: %v, want %q", err, want)
		}
	}
}

// TestDescribeFromTheAPI: what is known of a cluster without a look at its nodes comes from
// its leases and from the mirrors of its static pods.
func TestDescribeFromTheAPI(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
	pod := func(component, image, arg string) string {
		return fmt.Sprintf(`{"metadata": {"labels": {"component": %q}}, "spec": {"nodeName": "node-1", "containers": [{"image": %q, "command": [%q, %q]}]}}`, component, image, component, arg)
	}
	a := api(t, quiet(leases+"kube-scheduler", `{"spec": {"leaseDurationSeconds": 60}}`,
		"/api/v1/namespaces/kube-system/pods", `{"items": [`+pod("etcd", "etcd:3.7.0-0", "--election-timeout=5000")+`, `+pod("kube-scheduler", "x/kube-scheduler:v1.37.0@sha256:00", "--leader-elect=true")+`]}`))
	spec, err := a.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := spec.Node(0)
	if n.KubernetesVersion != "v1.37.1" || n.Zone != "" || spec.Spec.Workers != 1 || spec.Spec.LoadBalancer.Kind != clusters.BalancerNone {
		t.Errorf("it is %+v, node %+v", spec.Spec, n)
	}
	s, err := clusters.Settings(spec)
	if err != nil || s.ElectionTimeout.Seconds() != 5 || s.Elections["kube-scheduler"].LeaseDuration.Seconds() != 60 || s.Elections["kube-controller-manager"].LeaseDuration.Seconds() != 15 {
		t.Errorf("settings %+v, error %v", s, err)
	}
	pods, err := a.pods(t.Context())
	if v := pods.version("node-1", "kube-scheduler"); err != nil || v != "v1.37.0" {
		t.Errorf("the scheduler's version is %q, error %v", v, err)
	}
}
