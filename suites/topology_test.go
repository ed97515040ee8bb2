package suites

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/scenarios"
)

func TestCluster(t *testing.T) {
	run := clusters.Default()
	run.Spec.Sysctls = map[string]string{"net.a": "1", "net.b": "1"}
	run.Spec.ExtraArgs = clusters.ExtraArgs{framework.Etcd: {"election-timeout": "3000", "heartbeat-interval": "300"}}
	c, err := Cluster(run, scenarios.Topology{LoadBalancer: "haproxy", Disk: "fuse", Election: map[string]string{"kube-scheduler": "supervisor"},
		ExtraArgs: map[string]map[string]string{"etcd": {"election-timeout": "2000"}, "kube-scheduler": {"v": "4"}},
		Sysctls:   map[string]string{"net.b": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Spec.LoadBalancer.Kind != clusters.BalancerHAProxy || c.Spec.Disk != clusters.DiskFUSE || len(c.Spec.Nodes) != 3 {
		t.Errorf("%+v", c.Spec)
	}
	if c.Spec.Election[framework.Scheduler] != clusters.ElectionSupervisor || run.Spec.Election != nil {
		t.Errorf("elections %v, the run's %v", c.Spec.Election, run.Spec.Election)
	}
	etcd := c.Spec.ExtraArgs[framework.Etcd]
	if etcd["election-timeout"] != "2000" || etcd["heartbeat-interval"] != "300" || c.Spec.ExtraArgs[framework.Scheduler]["v"] != "4" {
		t.Errorf("%v", c.Spec.ExtraArgs)
	}
	if s := c.Spec.Sysctls; len(s) != 2 || s["net.a"] != "1" || s["net.b"] != "2" || run.Spec.Sysctls["net.b"] != "1" {
		t.Errorf("sysctls %v, the run's %v", s, run.Spec.Sysctls)
	}
	if run.Spec.LoadBalancer.Kind != clusters.BalancerBuiltin || run.Spec.ExtraArgs[framework.Etcd]["election-timeout"] != "3000" {
		t.Error("the run's own cluster has changed")
	}
	if _, err := Cluster(run, scenarios.Topology{LoadBalancer: "magic"}); err == nil || !strings.Contains(err.Error(), "magic") {
		t.Errorf("a balancer that there is not: %v", err)
	}
}

// TestAsItIs: a cluster that stays is neither made over nor left without a node.
func TestAsItIs(t *testing.T) {
	wants := func(c scenarios.Topology, steps ...scenarios.Step) *scenarios.Scenario {
		return &scenarios.Scenario{Spec: scenarios.Spec{Cluster: c, Timeline: steps}}
	}
	missing := &scenarios.Scenario{Missing: "no way"}
	all := []*scenarios.Scenario{
		wants(scenarios.Topology{}, scenarios.Step{Wait: "1s"}, scenarios.Step{Action: &scenarios.Action{Name: "ready"}}),
		wants(scenarios.Topology{ExtraArgs: map[string]map[string]string{"etcd": {"election-timeout": "2000"}}}),
		wants(scenarios.Topology{Own: true}), wants(scenarios.Topology{}, scenarios.Step{Action: &scenarios.Action{Name: "add-node", ID: "x"}}), missing,
	}
	for i, want := range []string{"", "a cluster of its own kind", "as it found it", "as it found it", "no way"} {
		if why := AsItIs(all)[i].NotFor(3); !strings.Contains(why, want) || want == "" && why != "" {
			t.Errorf("scenario %d: %q, want %q", i, why, want)
		}
	}
	if all[1].Missing != "" {
		t.Error("a scenario itself was changed")
	}
}

// TestHere: what a machine cannot do for a scenario is not applicable, not an error.
func TestHere(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // nothing is installed
	all := []*scenarios.Scenario{{}, {Spec: scenarios.Spec{Cluster: scenarios.Topology{LoadBalancer: "nginx"}}},
		{Spec: scenarios.Spec{Cluster: scenarios.Topology{LoadBalancer: "haproxy"}}}, {Spec: scenarios.Spec{Cluster: scenarios.Topology{LoadBalancer: "vip"}}}}
	here := Here(local.Provider{}, clusters.Default(), all)
	for i, want := range []string{"", "install nginx-light", "install haproxy", ""} {
		if why := here[i].NotFor(3); !strings.Contains(why, want) || want == "" && why != "" {
			t.Errorf("scenario %d: %q, want %q", i, why, want)
		}
		if all[i].Missing != "" {
			t.Errorf("scenario %d itself was changed", i)
		}
	}
	run := clusters.Default()
	run.Spec.LoadBalancer.Kind = clusters.BalancerNGINX
	if why := Here(local.Provider{}, run, all)[1].NotFor(3); why != "" {
		t.Errorf("what the run itself asks for: %q", why)
	}
}
