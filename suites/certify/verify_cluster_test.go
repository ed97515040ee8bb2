package certify

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// A scenario runs on the cluster that it asks for. On a cluster that the user described it runs
// unchanged, if that has what it needs, and is left out otherwise. Each node has its own version.
func TestVerifyCluster(t *testing.T) {
	const row = "HA-CL-010" // each way of balancing
	for name, test := range map[string]struct {
		change    func(*clusters.Spec)
		described bool
		found     func(*record.Meta) // what records say; nil for what was described
		want      string
	}{
		"as scenarios ask": {func(*clusters.Spec) {}, false, nil, ""},
		"another balancer": {func(s *clusters.Spec) { s.LoadBalancer.Kind = clusters.BalancerHAProxy }, true, nil, ""},
		"other arguments": {func(s *clusters.Spec) {
			s.ExtraArgs = clusters.ExtraArgs{"kube-scheduler": {"leader-elect-lease-duration": "20s"}, "kube-apiserver": {"admin-password": marker}}
		}, true, nil, ""},
		"versions per node": {func(s *clusters.Spec) { s.Nodes[1].KubernetesVersion, s.Nodes[1].EtcdVersion = "v1.36.3", "v3.6.16" }, true,
			func(m *record.Meta) { m.Versions["node-2"]["etcd"] = "v3.6.16" }, ""},
		"another version than the node's": {func(s *clusters.Spec) { s.Nodes[1].KubernetesVersion = "v1.36.3" }, true,
			func(m *record.Meta) { m.Versions["node-2"]["kube-apiserver"] = clusters.DefaultKubernetesVersion }, "has API server " + clusters.DefaultKubernetesVersion + " on node-2, but the plan's cluster has v1.36.3 there"},
		"another etcd than the node's": {func(s *clusters.Spec) { s.Nodes[1].EtcdVersion = "v3.6.16" }, true,
			func(m *record.Meta) { m.Versions["node-2"]["etcd"] = "v3.7.3" }, "has etcd v3.7.3 on node-2, but the plan's cluster has v3.6.16 there"},
		"another version on each node": {func(s *clusters.Spec) {
			for i := range s.Nodes {
				s.Nodes[i].KubernetesVersion = "v1.36.3"
			}
		}, true, nil, "the version of Kubernetes is stated as " + clusters.DefaultKubernetesVersion + ", but no node of the plan's cluster has it"},
	} {
		spec := clusters.Default()
		spec.SetNodes(3)
		test.change(&spec.Spec)
		chosen := Scenarios([]string{row}, Breaking)
		if test.described {
			chosen = run.AsDescribed(spec, chosen)
		}
		c := newCertificationOn(t, spec, chosen, Breaking, 0, row)
		for _, s := range c.plan.Scenarios {
			if test.found != nil && s.NotFor(spec.Size()) == "" {
				c.record(t, s, s.Metadata.Name, test.found)
			}
		}
		c.plan.Ended = time.Now()
		if err := c.plan.Save(c.dir); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(c.bundle(t, testKey(t)), nil, nil)
		if err != nil || v.Holds() != (test.want == "") || !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, test.want)
		}
	}
	again, key := forged(t, newCertification(t, row).bundle(t, testKey(t)), func(dir string, _ *Statement) {
		p, err := run.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Scenarios {
			s.Spec.Cluster = scenarios.Topology{Own: s.Spec.Cluster.Own}
		}
		if err := p.Save(dir); err != nil {
			t.Fatal(err)
		}
	})
	v, err := Verify(again, key, nil)
	if want := "balanced-by-haproxy-victim-1 in the plan is not as the catalogue has it"; err != nil || !strings.Contains(strings.Join(v.Problems, "\n"), want) {
		t.Errorf("with the plan's balancer in place of each scenario's: %+v, %v; want %q", v, err, want)
	}
}

// Parts of a run have clusters of their own, unless the run takes over a cluster that stays, whose
// nodes may have names that the plan does not know.
func TestVerifyAttached(t *testing.T) {
	for name, test := range map[string]struct {
		attach        bool
		first, second string // prefixes of the nodes' names, by part
		subnet        string // of the second part
		want          string
	}{
		"a cluster each":                       {false, "", "", "10.0.9.", ""},
		"one that stays":                       {true, "", "", "10.0.0.", ""},
		"one that stays, and then another one": {true, "", "", "10.0.9.", "both of holdfast, are from different clusters"},
		"one that its maker named":             {true, "theirs-", "theirs-", "10.0.0.", ""},
		"two that their makers named":          {true, "theirs-", "others-", "10.0.9.", "both of holdfast, are from different clusters"},
	} {
		c := newCertification(t, "HA-QR-005")
		one := c.plan.Parts[0]
		two := one
		two.Name, one.Scenarios, two.Scenarios = "cluster-2", one.Scenarios[:Turns], one.Scenarios[Turns:]
		c.plan.Attach, c.plan.Parts = test.attach, []run.Part{one, two}
		if test.first != "" {
			c.plan.Provider = "kind"
		}
		for _, part := range c.plan.Parts {
			prefix, subnet := test.first, "10.0.0."
			if part.Name == two.Name {
				prefix, subnet = test.second, test.subnet
			}
			for _, scenario := range part.Scenarios {
				s, err := c.plan.Scenario(scenario)
				if err != nil {
					t.Fatal(err)
				}
				c.record(t, s, scenario, func(m *record.Meta) {
					versions := map[string]map[string]string{}
					for i := range m.Nodes {
						n := &m.Nodes[i]
						versions[prefix+n.Name] = m.Versions[n.Name]
						n.Name, n.Address = prefix+n.Name, subnet+strconv.Itoa(i+1)
					}
					m.Versions = versions
				})
			}
		}
		c.plan.Ended = time.Now()
		if err := c.plan.Save(c.dir); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(c.bundle(t, testKey(t)), nil, nil)
		if err != nil || v.Holds() != (test.want == "") || !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, test.want)
		}
	}
}

// The description of an existing cluster contains the settings that its components have, so records
// with other settings are not of that cluster, even if all of them agree.
func TestVerifySettingsOfRemote(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*record.Meta)
		want   string
	}{
		"as planned":      {func(*record.Meta) {}, ""},
		"a longer bound":  {func(m *record.Meta) { m.Settings["L"] = time.Minute }, "has L = 1m0s, but the plan's cluster has 15s"},
		"another timeout": {func(m *record.Meta) { m.Settings["E"] = time.Minute }, "has E = 1m0s, but the plan's cluster has 1s"},
		"other elections": {func(m *record.Meta) { m.Elections["kube-scheduler"]["L"] = time.Hour }, "has other election times than the plan's cluster"},
		// Nothing shows the detection time of a load balancer that holdfast did not create.
		"another balancer": {func(m *record.Meta) { m.Settings["H"] = time.Minute }, ""},
	} {
		c := newCertification(t, "HA-QR-005")
		c.plan.Provider, c.plan.Attach, c.plan.Cluster.Spec.Inventory = "remote", true, &clusters.Inventory{}
		for i := range c.plan.Parts {
			c.plan.Parts[i].Cluster.Spec.Inventory = c.plan.Cluster.Spec.Inventory
		}
		for _, s := range c.plan.Scenarios {
			c.record(t, s, s.Metadata.Name, test.change)
		}
		c.plan.Ended = time.Now()
		if err := c.plan.Save(c.dir); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(c.bundle(t, testKey(t)), nil, nil)
		if err != nil || v.Holds() != (test.want == "") || !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, test.want)
		}
	}
}
