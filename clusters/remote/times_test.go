package remote

import (
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"

// TestWithLeases: a Lease stands in for flags that are not seen, and makes no bound shorter.
func TestWithLeases(t *testing.T) {
	given := func(flags ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(flags); i += 2 {
			all[flags[i]] = flags[i+1]
		}
		return all
	}
	for _, tc := range []struct {
		name  string
		args  map[string]string
		lease time.Duration
		shown bool
		want  map[string]string
	}{
		{"no flag, and a Lease as of a component with defaults", nil, 15 * time.Second, true, nil},
		{"no flag that is seen, and such a Lease", nil, 15 * time.Second, false, given(leaseFlag, "15s")},
		{"no flag, and OpenShift's Lease", nil, 137 * time.Second, true, given(leaseFlag, "2m17s", renewFlag, "2m17s", retryFlag, "1m55s")},
		{"OpenShift's flags", given(leaseFlag, "137s", renewFlag, "107s", retryFlag, "26s"), 137 * time.Second, true, given(leaseFlag, "137s", renewFlag, "107s", retryFlag, "26s")},
		{"a renew deadline alone", given(renewFlag, "107s"), 137 * time.Second, true, given(leaseFlag, "2m17s", renewFlag, "107s", retryFlag, "1m55s")},
		{"a Lease of another instance with a flag", given(leaseFlag, "40s"), 60 * time.Second, true, given(leaseFlag, "40s")},
		{"a shorter Lease than that of the defaults, which run here", nil, 6 * time.Second, true, nil},
		{"a shorter Lease of what is not seen", nil, 6 * time.Second, false, given(leaseFlag, "6s", renewFlag, "6s", retryFlag, "5s")},
	} {
		args := clusters.ExtraArgs{}
		if tc.args != nil {
			args[framework.Scheduler] = tc.args
		}
		got := withLeases(args, map[framework.Component]time.Duration{framework.Scheduler: tc.lease}, func(framework.Component) bool { return tc.shown })
		if !reflect.DeepEqual(got[framework.Scheduler], tc.want) || got[framework.ControllerManager] != nil {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestLeaseOfOpenShift: on nodes that are inspected the Lease of a component still counts if no flag
// of it is found, so that bounds are not those of the default, and the settings say where each is
// from.
func TestLeaseOfOpenShift(t *testing.T) {
	a := api(t, quiet(leasesPath+"kube-scheduler", `{"spec": {"leaseDurationSeconds": 137}}`, leasesPath+"kube-controller-manager", `{"spec": {"leaseDurationSeconds": 60}}`,
		"/api/v1/namespaces/kube-system/pods", `{"items": []}`))
	_, port, err := net.SplitHostPort(a.Spec.Nodes[0].APIServer)
	if err != nil {
		t.Fatal(err)
	}
	fakeSSH(t, strings.Replace(kubeadmNode(), "--secure-port=6443", "--secure-port="+port, 1))
	a.Spec.Nodes[0].SSH = "node-1"
	spec, err := a.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings, err := clusters.Settings(spec)
	if err != nil || settings.LeaseDuration != 137*time.Second || settings.ElectionTimeout != 5*time.Second {
		t.Fatalf("settings %+v, error %v", settings, err)
	}
	for component, want := range map[framework.Component]time.Duration{framework.Scheduler: 137 * time.Second, framework.ControllerManager: time.Minute} {
		if e := settings.Elections[component]; e.LeaseDuration != want {
			t.Errorf("%s: %+v, want a lease of %s", component, e, want)
		}
	}
	ssh, done, err := shells(a.Inventory)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	seen, err := a.find(t.Context(), ssh, false)
	if err != nil {
		t.Fatal(err)
	}
	c := &Observed{access: a, spec: spec, settings: settings}
	c.explain(seen)
	for symbol, want := range map[string]string{
		"L": "leader-elect-lease-duration of kube-scheduler on node-1, from the Lease kube-system/kube-scheduler",
		"E": "election-timeout of etcd on node-1, from its command line",
		"N": "default of kube-controller-manager",
		"T": "constant of kube-apiserver",
	} {
		if got := c.settings.Origins[symbol]; got != want {
			t.Errorf("%s: %q, want %q", symbol, got, want)
		}
	}
	if want := []string{"R", "P"}; !slices.Equal(c.settings.Assumed, want) {
		t.Errorf("assumed are %v, want %v", c.settings.Assumed, want)
	}
}

// TestExplainWithoutNodes: without a look at nodes, settings are from static pods and from Leases.
func TestExplainWithoutNodes(t *testing.T) {
	a := api(t, quiet(leasesPath+"kube-scheduler", `{"spec": {"leaseDurationSeconds": 15}}`, "/api/v1/namespaces/kube-system/pods",
		`{"items": [{"metadata": {"labels": {"component": "etcd"}}, "spec": {"nodeName": "node-1", "containers": [{"command": ["etcd", "--election-timeout=2500"]}]}}]}`))
	spec, err := a.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings, err := clusters.Settings(spec)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := a.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &Observed{access: a, spec: spec, settings: settings, pods: pods}
	c.explain(nil)
	if e, l := c.settings.Origins["E"], c.settings.Origins["L"]; e != "election-timeout of etcd on node-1, from the manifest of its static pod" ||
		l != "leader-elect-lease-duration of kube-scheduler on node-1, from the Lease kube-system/kube-scheduler" || len(c.settings.Assumed) > 0 {
		t.Errorf("E: %q, L: %q, assumed %v", e, l, c.settings.Assumed)
	}
}
