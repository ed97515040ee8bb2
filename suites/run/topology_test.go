package run

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
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

// TestAsDescribed checks that the user's cluster wins: no scenario of the catalogue changes the
// description, and none is judged on another balancer, disk or election.
func TestAsDescribed(t *testing.T) {
	run := clusters.Default()
	run.Spec.ExtraArgs = clusters.ExtraArgs{framework.APIServer: {"shutdown-delay-duration": "0s"},
		framework.ControllerManager: {"leader-elect-lease-duration": "60s", "leader-elect-renew-deadline": "40s"}}
	run.Spec.Sysctls = map[string]string{"net.ipv4.tcp_rto_max_ms": "9000"}
	structural := map[string]bool{}
	for i, s := range AsDescribed(run, scenarios.All()) {
		c, err := Cluster(run, s.Spec.Cluster)
		if s.NotFor(3) != "" {
			structural[s.Metadata.Name] = true
			continue
		}
		if err != nil || !reflect.DeepEqual(c.Spec, run.Spec) {
			t.Errorf("%s runs on %+v, %v", s.Metadata.Name, c, err)
		}
		if before := scenarios.All()[i]; before == s || before.Spec.Cluster.Own != s.Spec.Cluster.Own {
			t.Errorf("%s: the scenario itself was changed, or lost that it needs a cluster of its own", s.Metadata.Name)
		}
	}
	for name, want := range map[string]bool{"balanced-by-dns": true, "balanced-by-haproxy": true, "etcd-disk-slow": true, "supervised-components": true,
		"etcd-balanced": true, "apiserver-drained": false, "leases-lost": false, "node-lost": false} {
		if structural[name] != want {
			t.Errorf("%s does not apply: %t, want %t", name, structural[name], want)
		}
	}
	// Scenarios that share a cluster apply also if it has only what they need themselves.
	for _, one := range []struct {
		kind    clusters.BalancerKind
		disk    clusters.Disk
		applies []string
		not     []string
	}{
		{clusters.BalancerBuiltin, clusters.DiskFUSE, []string{"power-lost"}, []string{"balanced-by-vip", "balanced-by-dns"}},
		{clusters.BalancerVIP, clusters.DiskNone, []string{"balanced-by-vip"}, []string{"power-lost", "supervised-components"}},
		{clusters.BalancerDNS, clusters.DiskNone, []string{"balanced-by-dns"}, []string{"supervised-components"}},
	} {
		run.Spec.LoadBalancer.Kind, run.Spec.Disk = one.kind, one.disk
		for _, s := range AsDescribed(run, scenarios.All()) {
			why := s.NotFor(3)
			if slices.Contains(one.applies, s.Metadata.Name) && why != "" || slices.Contains(one.not, s.Metadata.Name) && why == "" {
				t.Errorf("balancer %s, disk %s: %s: %q", one.kind, one.disk, s.Metadata.Name, why)
			}
		}
	}
}

// lends is a provider that attaches to clusters, with or without the ability to add nodes to them.
type lends struct {
	clusters.Provider
	expands bool
}

func (lends) Name() string { return "lends" }
func (l lends) Expands(context.Context, *clusters.Cluster) error {
	if l.expands {
		return nil
	}
	return errors.New("its network is shared")
}

// TestAsItIs checks that a cluster that stays is neither reconfigured nor left without a node, or
// with one more.
func TestAsItIs(t *testing.T) {
	wants := func(c scenarios.Topology, steps ...engine.Step) *scenarios.Scenario {
		return &scenarios.Scenario{Spec: scenarios.Spec{Cluster: c, Timeline: steps}}
	}
	missing := &scenarios.Scenario{Missing: "no way"}
	all := []*scenarios.Scenario{
		wants(scenarios.Topology{}, engine.Step{Wait: "1s"}, engine.Step{Action: &engine.Action{Name: "ready"}}),
		wants(scenarios.Topology{ExtraArgs: map[string]map[string]string{"etcd": {"election-timeout": "2000"}}}),
		wants(scenarios.Topology{LoadBalancer: "haproxy"}),
		wants(scenarios.Topology{Own: true}), wants(scenarios.Topology{}, engine.Step{Action: &engine.Action{Name: "add-node", ID: "x"}}), missing,
		wants(scenarios.Topology{}, engine.Step{Action: &engine.Action{Name: "add-node", ID: "x"}}, engine.Step{Action: &engine.Action{Name: "remove-node"}}),
		wants(scenarios.Topology{Own: true}, engine.Step{Action: &engine.Action{Name: "add-node", ID: "x"}}, engine.Step{Action: &engine.Action{Name: "remove-node"}}),
	}
	for _, test := range []struct {
		provider clusters.Provider
		want     []string
	}{
		{local.Provider{}, []string{"", "", "the scenario needs balancer haproxy", "as it found it", "as it found it", "no way", "the provider local cannot add any", "as it found it"}},
		{lends{}, []string{"", "", "the scenario needs balancer haproxy", "as it found it", "as it found it", "no way", "the provider lends cannot add any to this one: its network is shared", "as it found it"}},
		{lends{expands: true}, []string{"", "", "the scenario needs balancer haproxy", "as it found it", "as it found it", "no way", "", "as it found it"}},
	} {
		for i, want := range test.want {
			if why := AsItIs(t.Context(), test.provider, clusters.Default(), all)[i].NotFor(3); !strings.Contains(why, want) || want == "" && why != "" {
				t.Errorf("%+v: scenario %d: %q, want %q", test.provider, i, why, want)
			}
		}
	}
	if all[2].Missing != "" {
		t.Error("a scenario itself was changed")
	}
}

// TestHere checks that a scenario that the machine does not support is not applicable, and causes
// no error.
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

// unable is a provider whose clusters cannot make some changes of nodes.
type unable struct{ local.Provider }

func (unable) LacksChange(change string) string {
	return map[string]string{"downgrade": "nothing returns", "reconfigure": "arguments stay", "replace-node": "names are new"}[change]
}

// TestHereWithinLimits checks that a scenario with changes of nodes that the provider cannot make
// is not applicable, for each requirement with the reason of the changes that it is about.
func TestHereWithinLimits(t *testing.T) {
	limited := map[string]*scenarios.Scenario{}
	for _, s := range Here(unable{}, clusters.Default(), scenarios.All()) {
		if s.Missing != "" {
			limited[s.Metadata.Name] = s
		}
	}
	for name, want := range map[string]map[string]string{
		"upgrade-taken-back": {"HA-UP-002": "nothing returns", "HA-UP-003": "nothing returns", "HA-UP-008": "arguments stay"},
		"node-replaced":      {"HA-MB-005": "names are new"},
	} {
		s := limited[name]
		if s == nil {
			t.Errorf("%s applies", name)
			continue
		}
		seen := map[string]bool{}
		for _, r := range without(s, judge.NotApplicable, s.NotFor(3), s.MissingFor) {
			if why := want[r.Requirement]; why != "" && !strings.Contains(r.Sentence, why) {
				t.Errorf("%s: %s: %s, want %s", name, r.Requirement, r.Sentence, why)
			}
			seen[r.Requirement] = true
		}
		for id := range want {
			if !seen[id] {
				t.Errorf("%s has no result for %s", name, id)
			}
		}
	}
	for _, name := range []string{"upgrade-one-by-one", "nodes-scaled", "ca-replaced"} {
		if s := limited[name]; s != nil {
			t.Errorf("%s does not apply: %s", name, s.Missing)
		}
	}
	for _, test := range []struct {
		provider clusters.Provider
		undo     bool
		want     string
	}{
		{unable{}, true, "nothing returns"},
		{unable{}, false, ""},
		{local.Provider{}, true, ""},
	} {
		interrupted := &scenarios.Scenario{Spec: scenarios.Spec{Timeline: []engine.Step{{Action: &engine.Action{Name: "upgrade", ID: "cut", Node: "1", To: "v1.37.1", Interrupt: 2, Undo: test.undo}}}}}
		if why := Here(test.provider, clusters.Default(), []*scenarios.Scenario{interrupted})[0].NotFor(3); !strings.Contains(why, test.want) || (why == "") != (test.want == "") {
			t.Errorf("an interrupted upgrade, undone %t: %q, want %q", test.undo, why, test.want)
		}
	}
}
