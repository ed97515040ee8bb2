package clusters

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

const header = "apiVersion: holdfast.dev/v1alpha1\nkind: Cluster\n"

func TestDefault(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	// The figures of the catalogue.
	want := framework.Settings{
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		EndpointTTL: 15 * time.Second, EndpointInterval: 10 * time.Second, ElectionTimeout: time.Second, NodeGrace: 50 * time.Second, NodePeriod: 5 * time.Second, AddonInterval: time.Minute,
		BalancerDetection: 3 * time.Second, Margin: 2 * time.Second,
	}
	election := framework.Election{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	want.Elections = map[framework.Component]framework.Election{framework.ControllerManager: election, framework.Scheduler: election}
	s.Origins = nil // texts; see TestOrigins
	if !reflect.DeepEqual(s, want) {
		t.Errorf("settings are %+v, want %+v", s, want)
	}
	parsed, err := Parse("x", []byte(header))
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Spec.Nodes) != 3 || parsed.Spec.KubernetesVersion != DefaultKubernetesVersion || parsed.Spec.Workers != 2 {
		t.Errorf("a file that says nothing is %+v", parsed)
	}
}

func TestFullFile(t *testing.T) {
	c, err := Load(filepath.Join("testdata", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Name != "demo" || c.Spec.Workers != 5 || c.Spec.Data != DataDisk || c.Spec.LoadBalancer.Kind != BalancerHAProxy {
		t.Errorf("it is %+v", c)
	}
	for i, want := range []struct {
		name, kubernetes, etcd, reconciler, inflight string
		disk                                         Disk
	}{
		{"node-1", "v1.37.1", "", "", "800", DiskFUSE},
		{"node-2", "v1.36.3", "v3.6.5", "", "800", DiskNone},
		{"odd-one", "v1.37.1", "", "none", "100", DiskFUSE},
	} {
		n := c.Node(i)
		flags := n.ExtraArgs[framework.APIServer]
		if n.Index != i || n.Name != want.name || n.KubernetesVersion != want.kubernetes || n.EtcdVersion != want.etcd ||
			flags["endpoint-reconciler-type"] != want.reconciler || flags["max-requests-inflight"] != want.inflight || n.Disk != want.disk {
			t.Errorf("node %d is %+v, want %+v", i, n, want)
		}
		if value, ok := flags["feature-gates"]; !ok || value != "" {
			t.Errorf("node %d has lost an argument without a value", i)
		}
	}
	if c.Spec.Sysctls["net.ipv4.tcp_rto_max_ms"] != "3000" {
		t.Errorf("sysctls %v", c.Spec.Sysctls)
	}
	s, err := Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	if s.LeaseDuration != 30*time.Second || s.ElectionTimeout != 2*time.Second || s.BalancerDetection != 2250*time.Millisecond {
		t.Errorf("settings are %+v", s)
	}
}

// TestElections shows that each elected component has its own times.
func TestElections(t *testing.T) {
	c := Default()
	c.Spec.ExtraArgs = ExtraArgs{framework.Scheduler: {"leader-elect-lease-duration": "1h"}}
	c.Spec.Nodes[1].ExtraArgs = ExtraArgs{framework.ControllerManager: {"leader-elect-retry-period": "3s"}}
	s, err := Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	kcm, scheduler := s.Elections[framework.ControllerManager], s.Elections[framework.Scheduler]
	if kcm.LeaseDuration != 15*time.Second || kcm.RetryPeriod != 3*time.Second || scheduler.LeaseDuration != time.Hour || scheduler.RetryPeriod != 2*time.Second {
		t.Errorf("controller manager %+v, scheduler %+v", kcm, scheduler)
	}
	if s.LeaseDuration != time.Hour || s.RetryPeriod != 3*time.Second {
		t.Errorf("for all: %+v", s)
	}
}

// TestLeases shows that a further lease has client-go's times where the file gives none, and that
// the other bounds do not follow from it.
func TestLeases(t *testing.T) {
	spec := `spec:
  leases:
    cluster-autoscaler:
    descheduler: {}
    slow: {leaseDuration: 1m, renewDeadline: 40s}
`
	c, err := Parse("f.yaml", []byte(header+spec))
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInventory("nodes.yaml", []byte(inventoryHeader+spec+"  nodes:\n  - {name: cp-1, address: 10.0.0.11}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(i.Spec.Leases, c.Spec.Leases) {
		t.Errorf("an inventory has %v, a cluster file %v", i.Spec.Leases, c.Spec.Leases)
	}
	s, err := Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	usual := framework.Election{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	slow := framework.Election{LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 2 * time.Second}
	if s.Elections["cluster-autoscaler"] != usual || s.Elections["descheduler"] != usual || s.Elections["slow"] != slow {
		t.Errorf("the elections are %v", s.Elections)
	}
	if s.LeaseDuration != 15*time.Second || s.RenewDeadline != 10*time.Second {
		t.Errorf("for all: %+v", s)
	}
}

// TestGoawayChance shows that the least chance counts, and that none is 0.
func TestGoawayChance(t *testing.T) {
	chance := func(value string) ExtraArgs { return ExtraArgs{framework.APIServer: {"goaway-chance": value}} }
	c := Default()
	c.Spec.ExtraArgs = chance("0.02")
	if s, err := Settings(c); err != nil || s.GoawayChance != 0.02 {
		t.Errorf("of all API servers: %g, error %v", s.GoawayChance, err)
	}
	c.Spec.Nodes[1].ExtraArgs = chance("0.001")
	if s, err := Settings(c); err != nil || s.GoawayChance != 0.001 {
		t.Errorf("less on one node: %g, error %v", s.GoawayChance, err)
	}
	c.Spec.Nodes[1].ExtraArgs = chance("0.1")
	if _, err := Settings(c); err == nil || !strings.Contains(err.Error(), "from 0 to 0.02") {
		t.Errorf("more than the API server accepts: error %v", err)
	}
}

func TestSettings(t *testing.T) {
	args := func(component framework.Component, flag, value string) ExtraArgs {
		return ExtraArgs{component: {flag: value}}
	}
	for _, tc := range []struct {
		name   string
		change func(*Cluster)
		symbol string
		want   time.Duration
	}{
		{"lease duration", func(c *Cluster) {
			c.Spec.ExtraArgs = args(framework.ControllerManager, "leader-elect-lease-duration", "20s")
		}, "L", 20 * time.Second},
		{"one component is quicker, the other is not", func(c *Cluster) {
			c.Spec.ExtraArgs = args(framework.ControllerManager, "leader-elect-lease-duration", "5s")
		}, "L", 15 * time.Second},
		{"both are quicker", func(c *Cluster) {
			c.Spec.ExtraArgs = args(framework.ControllerManager, "leader-elect-lease-duration", "5s").
				Merge(args(framework.Scheduler, "leader-elect-lease-duration", "6s"))
		}, "L", 6 * time.Second},
		{"renew deadline", func(c *Cluster) {
			c.Spec.ExtraArgs = args(framework.Scheduler, "leader-elect-renew-deadline", "12s")
		}, "R", 12 * time.Second},
		{"retry period of one node", func(c *Cluster) {
			c.Spec.Nodes[2].ExtraArgs = args(framework.Scheduler, "leader-elect-retry-period", "3s")
		}, "P", 3 * time.Second},
		{"election timeout in milliseconds", func(c *Cluster) {
			c.Spec.ExtraArgs = args(framework.Etcd, "election-timeout", "500")
		}, "E", 500 * time.Millisecond},
		{"no balancer", func(c *Cluster) { c.Spec.LoadBalancer.Kind = BalancerNone }, "H", 0},
		{"passive checks", func(c *Cluster) {
			c.Spec.LoadBalancer = LoadBalancer{BalancerNGINX, HealthCheck{Interval: 700 * time.Millisecond, Timeout: 500 * time.Millisecond, Fall: 3, Rise: 1}}
		}, "H", 3500 * time.Millisecond},
		{"a name", func(c *Cluster) { c.Spec.LoadBalancer.Kind = BalancerDNS }, "H", 4 * time.Second},
		{"an address that moves", func(c *Cluster) { c.Spec.LoadBalancer.Kind = BalancerVIP }, "H", 4 * time.Second},
		{"no health checks", func(c *Cluster) { c.Spec.LoadBalancer.HealthCheck.Disabled = true }, "H", 3 * time.Second},
		{"endpoints' time to live", func(*Cluster) {}, "T", 15 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			tc.change(c)
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			s, err := Settings(c)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Symbols()[tc.symbol]; got != tc.want {
				t.Errorf("%s is %v, want %v", tc.symbol, got, tc.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	spec := header + "spec:\n"
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"empty", "", []string{"f.yaml is empty"}},
		{"only a comment", "# nothing\n", []string{"f.yaml"}},
		{"no YAML", "a: b: c", []string{"f.yaml: yaml: "}},
		{"a list", "- a", []string{"f.yaml:1: the file is a list: want a Cluster of holdfast.dev/v1alpha1"}},
		{"no kind", "apiVersion: holdfast.dev/v1alpha1", []string{"f.yaml:1: kind is missing"}},
		{"another kind", "apiVersion: v1\nkind: Pod", []string{`f.yaml:1: apiVersion is "v1": want holdfast.dev/v1alpha1`, `f.yaml:2: kind is "Pod": want Cluster`}},
		{"an inventory", inventoryHeader + "spec: {nodes: []}", []string{"f.yaml:2: kind is Inventory: want a Cluster of holdfast.dev/v1alpha1; a file of kind Inventory is for holdfast run --inventory"}},
		{"a scenario", "apiVersion: holdfast.dev/v1alpha1\nkind: Scenario\nspec: {timeline: []}", []string{"is for holdfast run -f"}},
		{"two documents", header + "---\n" + header, []string{"f.yaml:3: a second document"}},
		{"unknown field", spec + "  node: 3", []string{"f.yaml:4: unknown field spec.node: want one of nodes, kubernetesVersion, etcdVersion, loadBalancer, etcdBalancer, workers, registerNodes, extraArgs, sysctls, election, leases, data, disk"}},
		{"unknown field, deep", spec + "  loadBalancer:\n    healthCheck:\n      port: 1", []string{"f.yaml:6: unknown field spec.loadBalancer.healthCheck.port: want one of disabled, interval, timeout, fall, rise"}},
		{"zone that is no name", spec + "  nodes:\n  - zone: A b", []string{`spec.nodes[0].zone is "A b"`}},
		{"unknown field of a node", spec + "  nodes:\n  - rack: a", []string{"f.yaml:5: unknown field spec.nodes[0].rack: want one of name, zone, kubernetesVersion, etcdVersion, extraArgs, disk"}},
		{"twice", spec + "  workers: 1\n  workers: 2", []string{"f.yaml:5: spec.workers is given twice: the first is on line 4"}},
		{"all at once", spec + "  workers: many\n  data: tape\n  colour: red", []string{"f.yaml:4: spec.workers", "f.yaml:6: unknown field spec.colour"}},
		{"even number", spec + "  nodes: 4", []string{"f.yaml:4: spec.nodes asks for 4 control-plane nodes: want 1, 3, 5 or 7"}},
		{"far too many", spec + "  nodes: 2000000000", []string{"f.yaml:4: spec.nodes asks for more than 7"}},
		{"negative", spec + "  nodes: -1", []string{"f.yaml:4: spec.nodes asks for 0"}},
		{"nodes as a mapping", spec + "  nodes: {a: b}", []string{"f.yaml:4: spec.nodes is a mapping: want 1, 3, 5 or 7, or a list"}},
		{"nodes as a word", spec + "  nodes: three", []string{`f.yaml:4: spec.nodes is "three": want a whole number`}},
		{"same name", spec + "  nodes:\n  - {}\n  - name: node-1\n  - {}", []string{`f.yaml:6: spec.nodes[1].name is "node-1", as is that of spec.nodes[0]`}},
		{"name of the balancer", spec + "  nodes:\n  - name: balancer", []string{"f.yaml:5: spec.nodes[0].name", "which is reserved"}},
		{"bad name", header + "metadata:\n  name: A_b", []string{`f.yaml:4: metadata.name is "A_b": want`}},
		{"version in part", spec + "  kubernetesVersion: 1.37", []string{`f.yaml:4: spec.kubernetesVersion is "v1.37": want a full version`}},
		{"no version", spec + "  nodes:\n  - etcdVersion: latest", []string{"f.yaml:5: spec.nodes[0].etcdVersion"}},
		{"unknown balancer", spec + "  loadBalancer:\n    kind: f5", []string{`f.yaml:5: spec.loadBalancer.kind is "f5": want builtin, haproxy, nginx, dns, vip, on-demand or none`}},
		{"unknown balancer of etcd", spec + "  etcdBalancer: sticky", []string{`f.yaml:4: spec.etcdBalancer is "sticky": want affinity, round-robin or nothing`}},
		{"balancer of etcd without a machine", spec + "  etcdBalancer: affinity\n  loadBalancer: {kind: vip}", []string{"f.yaml:4: spec.etcdBalancer is affinity, which needs a machine that always runs, and loadBalancer vip has none"}},
		{"slow check", spec + "  loadBalancer: {healthCheck: {interval: 1s, timeout: 2s}}", []string{"f.yaml:4: spec.loadBalancer.healthCheck.timeout is 2s, longer than the interval of 1s"}},
		{"no duration", spec + "  loadBalancer: {healthCheck: {interval: 5}}", []string{`f.yaml:4: spec.loadBalancer.healthCheck.interval is "5": want a duration`}},
		{"fall", spec + "  loadBalancer: {healthCheck: {fall: 0}}", []string{"f.yaml:4: spec.loadBalancer.healthCheck.fall is 0: want 1 to 100"}},
		{"disabled", spec + "  loadBalancer: {healthCheck: {disabled: yes please}}", []string{"want true or false"}},
		{"workers", spec + "  workers: -1", []string{"f.yaml:4: spec.workers is -1: want 0 to 1000"}},
		{"data", spec + "  data: tape", []string{`f.yaml:4: spec.data is "tape": want memory or disk`}},
		{"disk", spec + "  disk: floppy", []string{`f.yaml:4: spec.disk is "floppy": want none or fuse`}},
		{"disk of a node", spec + "  nodes:\n  - disk: true", []string{`f.yaml:5: spec.nodes[0].disk is "true": want none or fuse`}},
		{"component", spec + "  extraArgs:\n    kubelet: {v: 5}", []string{"f.yaml:5: spec.extraArgs.kubelet", "want one of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, addon-manager, kwok"}},
		{"component of a node", spec + "  nodes:\n  - extraArgs:\n      kwok: {v: 5}", []string{"f.yaml:6: spec.nodes[0].extraArgs.kwok", "want one of etcd, kube-apiserver, kube-controller-manager, kube-scheduler"}},
		{"dashes", spec + "  extraArgs:\n    etcd:\n      --name: x", []string{"f.yaml:6: spec.extraArgs.etcd.--name is not the name of a flag"}},
		{"setting of the whole kernel", spec + "  sysctls:\n    vm.swappiness: 1", []string{"f.yaml:5: spec.sysctls.vm.swappiness is not a setting of a machine's network"}},
		{"list as a value", spec + "  extraArgs:\n    etcd:\n      name: [x]", []string{"f.yaml:6: spec.extraArgs.etcd.name is a list: want a string"}},
		{"time that bounds need", spec + "  extraArgs:\n    etcd:\n      election-timeout: 1s", []string{"f.yaml:6: spec.extraArgs.etcd.election-timeout cannot be used to compute bounds", "whole number of milliseconds"}},
		{"… of a node", spec + "  nodes:\n  - extraArgs:\n      kube-scheduler:\n        leader-elect-retry-period: soon", []string{"f.yaml:7: spec.nodes[0].extraArgs.kube-scheduler.leader-elect-retry-period"}},
		{"lease of a component that is followed anyway", spec + "  leases:\n    kube-scheduler: {}", []string{"f.yaml:5: spec.leases.kube-scheduler cannot be listed here: holdfast always watches the lease of kube-scheduler"}},
		{"lease that cannot exist", spec + "  leases:\n    Auto_scaler: {}", []string{"f.yaml:5: spec.leases.Auto_scaler is not the name of a lease"}},
		{"lease in a list", spec + "  leases: [cluster-autoscaler]", []string{"f.yaml:4: spec.leases is a list: want a mapping"}},
		{"field of a lease", spec + "  leases:\n    cluster-autoscaler: {duration: 15s}", []string{"f.yaml:5: unknown field spec.leases.cluster-autoscaler.duration: want one of leaseDuration, renewDeadline, retryPeriod"}},
		{"lease shorter than its deadline", spec + "  leases:\n    cluster-autoscaler: {leaseDuration: 8s}", []string{"f.yaml:5: spec.leases.cluster-autoscaler has a lease duration of 8s, a renew deadline of 10s"}},
		{"alias", spec + "  extraArgs:\n    etcd: &a {name: x}\n    kwok: *a", []string{"f.yaml:6: spec.extraArgs.kwok is an alias"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tc.file))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says\n%v\nwithout\n%s", err, want)
				}
			}
		})
	}
}

func TestLoad(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#", 1<<20+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "large.yaml is larger than") {
		t.Errorf("a large file: %v", err)
	}
}

func TestSetNodes(t *testing.T) {
	c := Default()
	c.Spec.Nodes[1].Name = "special"
	c.SetNodes(5)
	if err := c.Validate(); err != nil || len(c.Nodes()) != 5 || c.Node(1).Name != "special" || c.Node(4).Name != "node-5" {
		t.Errorf("nodes are %+v (%v)", c.Nodes(), err)
	}
	c.SetNodes(1)
	if err := c.Validate(); err != nil || len(c.Nodes()) != 1 {
		t.Errorf("nodes are %+v (%v)", c.Nodes(), err)
	}
}

// TestMergeLeavesItsInputs matters, since all nodes share the cluster's.
func TestMergeLeavesItsInputs(t *testing.T) {
	base := ExtraArgs{framework.Etcd: {"a": "1"}}
	merged := base.Merge(ExtraArgs{framework.Etcd: {"a": "2", "b": ""}})
	if base[framework.Etcd]["a"] != "1" || len(base[framework.Etcd]) != 1 {
		t.Errorf("the cluster's arguments have become %v", base)
	}
	if merged[framework.Etcd]["a"] != "2" {
		t.Errorf("merged: %v", merged)
	}
}

// FuzzParse: whatever the bytes, Parse returns a valid cluster or an error.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile(filepath.Join("testdata", "full.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, seed := range []string{"", header, header + "spec: {nodes: [{}, ~, {name: x}]}", "a: &a [*a]", header + "spec: {nodes: -3}", header + "spec: {nodes: 99999999999999999999, workers: -1}", "? [a]\n: b", header + "spec:\n  extraArgs: {etcd: {x: ~}}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("Parse took what Validate does not: %v", err)
		}
		if _, err := Settings(c); err != nil {
			t.Errorf("no settings: %v", err)
		}
		if len(c.Nodes()) > MaxNodes {
			t.Errorf("%d nodes", len(c.Nodes()))
		}
	})
}

func TestRuntimeEnvironment(t *testing.T) {
	for _, test := range []struct{ processors, nodes, want int }{
		{1, 3, 1}, {2, 3, 1}, {2, 1, 2}, {3, 3, 1}, {4, 3, 2}, {8, 3, 3}, {64, 5, 13},
	} {
		if got := RuntimeEnvironment(test.processors, test.nodes)["GOMAXPROCS"]; got != strconv.Itoa(test.want) {
			t.Errorf("RuntimeEnvironment(%d, %d): GOMAXPROCS=%s, want %d", test.processors, test.nodes, got, test.want)
		}
	}
}
