package kind

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

func TestConfiguration(t *testing.T) {
	spec := clusters.Default()
	spec.SetNodes(3)
	spec.Spec.ExtraArgs = clusters.ExtraArgs{
		framework.APIServer: {"max-requests-inflight": "800"},
		framework.Etcd:      {"election-timeout": "3000"},
	}
	spec.Spec.Nodes[1].KubernetesVersion = "v1.36.3"
	spec.Spec.Nodes[2].ExtraArgs = clusters.ExtraArgs{framework.Scheduler: {"leader-elect": "false"}}
	dir := t.TempDir()
	config, err := configuration(spec, func(v string) string { return "node:" + v }, netip.MustParseAddr("10.88.0.250"), dir)
	if err != nil {
		t.Fatal(err)
	}
	var images []string
	for _, n := range config.Nodes {
		images = append(images, string(n.Role)+" "+n.Image)
	}
	want := "control-plane node:v1.37.1, control-plane node:v1.36.3, control-plane node:v1.37.1, worker node:v1.37.1, worker node:v1.37.1"
	if got := strings.Join(images, ", "); got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	all := strings.Join(config.KubeadmConfigPatches, "---\n")
	for _, part := range []string{
		"- 10.88.0.250", "name: max-requests-inflight\n    value: \"800\"", "name: audit-log-path\n    value: " + nodeAuditLog,
		"name: election-timeout\n      value: \"3000\"", "name: enable-hostpath-provisioner", "failCgroupV1: false", "name: GOMAXPROCS",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("no %q in:\n%s", part, all)
		}
	}
	if got := config.ContainerdConfigPatches; len(got) != 1 || !strings.Contains(got[0], "stats_collect_period") {
		t.Errorf("containerd's configuration: %q", got)
	}
	if strings.Contains(all, "leader-elect") {
		t.Errorf("an argument of one node is on all:\n%s", all)
	}
	if config.Nodes[0].KubeadmConfigPatches != nil || len(config.Nodes[0].ExtraMounts) != 2 {
		t.Errorf("node 1 has what it was not asked to: %+v", config.Nodes[0])
	}
	odd := config.Nodes[2]
	if len(odd.KubeadmConfigPatches) != 2 || len(odd.ExtraMounts) != 3 || odd.ExtraMounts[2].ContainerPath != nodePatches {
		t.Fatalf("node 3: %+v", odd)
	}
	b, err := os.ReadFile(filepath.Join(odd.ExtraMounts[2].HostPath, "kube-scheduler+json.json"))
	if want := `[{"op":"add","path":"/spec/containers/0/command/-","value":"--leader-elect=false"}]`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	if entries, err := os.ReadDir(odd.ExtraMounts[2].HostPath); err != nil || len(entries) != 1 {
		t.Errorf("what all nodes have is patched again: %v, %v", entries, err)
	}
	for i, n := range config.Nodes[3:] {
		if n.Role != v1alpha4.WorkerRole || len(n.ExtraMounts) != 1 {
			t.Fatalf("worker %d: %+v", i, n)
		}
		b, err := os.ReadFile(n.ExtraMounts[0].HostPath)
		if want := "[Manager]\nDefaultEnvironment=\"GOGC=400\" \"GOMAXPROCS="; err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("worker %d: %q, %v", i, b, err)
		}
	}
}

// Before Kubernetes 1.36 kind's configuration has objects for arguments.
func TestOldConfiguration(t *testing.T) {
	spec := clusters.Default()
	spec.Spec.KubernetesVersion = "v1.35.8"
	patches, err := kubeadmPatches(spec, netip.MustParseAddr("10.88.0.250"))
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(patches, ""); !strings.Contains(all, "enable-hostpath-provisioner: \"true\"") || strings.Contains(all, "extraEnvs") {
		t.Error(all)
	}
}

// kwok's settings in scenarios apply to the sender of heartbeats: kubelets here.
func TestNodeLease(t *testing.T) {
	spec := clusters.Default()
	patches := func() string {
		t.Helper()
		all, err := kubeadmPatches(spec, netip.MustParseAddr("10.88.0.250"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "---\n")
	}
	if all := patches(); strings.Contains(all, "nodeLease") || strings.Contains(all, "nodeStatus") {
		t.Errorf("kubelets are told what nobody asked for:\n%s", all)
	}
	for seconds, status := range map[string]string{"4": "4s", "40": "10s"} {
		spec.Spec.ExtraArgs = clusters.ExtraArgs{framework.Kwok: {leaseFlag: seconds}}
		all := patches()
		for _, part := range []string{"kind: KubeletConfiguration", "nodeLeaseDurationSeconds: " + seconds + "\n", "nodeStatusUpdateFrequency: " + status + "\n", "nodeStatusReportFrequency: 5m0s\n"} {
			if !strings.Contains(all, part) {
				t.Errorf("no %q in:\n%s", part, all)
			}
		}
	}
	for _, bad := range []string{"", "0", "4s", "-1"} {
		spec.Spec.ExtraArgs = clusters.ExtraArgs{framework.Kwok: {leaseFlag: bad}}
		if err := cannot(spec); err == nil || !strings.Contains(err.Error(), "--"+leaseFlag+"="+bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestKubeletOfVersion(t *testing.T) {
	spec := clusters.Default()
	for _, step := range []struct {
		change        func()
		capped, gated bool
	}{
		{func() {}, true, false},
		{func() { spec.Spec.Nodes[1].KubernetesVersion = "v1.36.3" }, true, true},
		{func() { spec.Spec.Nodes[1].KubernetesVersion = "v1.34.9" }, false, true},
		{func() { spec.Spec.Nodes[1].KubernetesVersion, spec.Spec.KubernetesVersion = "", "v1.34.9" }, false, true},
	} {
		step.change()
		all, err := kubeadmPatches(spec, netip.MustParseAddr("10.88.0.250"))
		if err != nil {
			t.Fatal(err)
		}
		if capped := strings.Contains(strings.Join(all, ""), "crashLoopBackOff:\n  maxContainerRestartPeriod: 5s\n"); capped != step.capped {
			t.Errorf("capped: %t\n%s", capped, all)
		}
		if gated := strings.Contains(strings.Join(all, ""), "featureGates:\n  KubeletInUserNamespace: true\n"); gated != step.gated {
			t.Errorf("gated: %t\n%s", gated, all)
		}
	}
}

func TestCannot(t *testing.T) {
	for name, change := range map[string]func(*clusters.Spec){
		"balancer":                      func(s *clusters.Spec) { s.LoadBalancer.Kind = clusters.BalancerHAProxy },
		"cannot be changed or disabled": func(s *clusters.Spec) { s.LoadBalancer.HealthCheck.Disabled = true },
		"spec.loadBalancer.healthCheck": func(s *clusters.Spec) { s.LoadBalancer.HealthCheck.Fall = 1 },
		"etcd members":                  func(s *clusters.Spec) { s.EtcdBalancer = clusters.EtcdBalancerAffinity },
		"version":                       func(s *clusters.Spec) { s.EtcdVersion = "v3.6.1" },
		"version of":                    func(s *clusters.Spec) { s.Nodes[1].EtcdVersion = "v3.6.1" },
		"--cidr":                        func(s *clusters.Spec) { s.ExtraArgs = clusters.ExtraArgs{framework.Kwok: {"cidr": "10.9.0.0/16"}} },
		"disk":                          func(s *clusters.Spec) { s.Nodes[1].Disk = clusters.DiskFUSE },
		"kube-scheduler": func(s *clusters.Spec) {
			s.Election = map[framework.Component]clusters.Election{framework.Scheduler: clusters.ElectionSupervisor}
		},
	} {
		spec := clusters.Default()
		if err := cannot(spec); err != nil {
			t.Fatal(err)
		}
		change(&spec.Spec)
		if err := cannot(spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSettings(t *testing.T) {
	spec := clusters.Default()
	if s, err := settings(spec); err != nil || s.BalancerDetection != balancerDetection || s.Origins["H"] != "constant of kind's load balancer" {
		t.Errorf("%+v, %v", s, err)
	}
	spec.SetNodes(1)
	if s, err := settings(spec); err != nil || s.BalancerDetection != 0 || s.Origins["H"] != "" {
		t.Errorf("a single node has no balancer: %+v, %v", s, err)
	}
}
