package suites

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// everywhere gives a component an argument on every node.
func everywhere(component framework.Component, flag, value string) func(*clusters.Cluster) {
	return func(c *clusters.Cluster) {
		c.Spec.ExtraArgs = clusters.ExtraArgs{component: {flag: value}}
	}
}

// TestPlanted breaks a cluster on purpose and expects the judges to say so: a
// check that has never failed is not a check.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("makes clusters")
	}
	for _, p := range []struct {
		name     string
		plant    func(*clusters.Cluster)
		scenario string
		// want is the verdict by requirement; others of the scenario pass.
		want map[string]judge.Verdict
		// says is in the sentence on the first of them.
		says string
	}{
		{"no endpoint reconciler", everywhere(framework.APIServer, "endpoint-reconciler-type", "none"),
			"steady", map[string]judge.Verdict{"HA-EP-001": judge.Fail}, "10.77.0.1"},
		{"no leader election", everywhere(framework.ControllerManager, "leader-elect", "false"),
			"steady", map[string]judge.Verdict{"HA-LE-001": judge.Fail}, "kube-controller-manager"},
		{"balancer without health checks", func(c *clusters.Cluster) { c.Spec.LoadBalancer.HealthCheck.Disabled = true },
			"apiserver-killed", map[string]judge.Verdict{"HA-CL-003": judge.Fail}, "H + M"},
		{"fault without effect", nil, "off-and-isolated", map[string]judge.Verdict{"HA-QR-002": judge.Inconclusive}, "proof"},
	} {
		t.Run(p.name, func(t *testing.T) {
			results := runOn(t, p.plant, p.scenario)
			for range 2 {
				if !starved(results) {
					break
				}
				t.Log("the machine was too busy to say anything: once more")
				results = runOn(t, p.plant, p.scenario)
			}
			for _, r := range results {
				want, planted := p.want[r.Requirement]
				if strings.HasPrefix(r.Requirement, "RUN/") {
					continue
				}
				if !planted {
					want = judge.Pass
				}
				if r.Verdict != want {
					t.Errorf("%s: %s, want %s: %s", r.Requirement, r.Verdict, want, r.Sentence)
				}
				if planted && !strings.Contains(r.Sentence, p.says) {
					t.Errorf("%s: %q does not say %q", r.Requirement, r.Sentence, p.says)
				}
				if planted {
					t.Log(r.Sentence)
				}
			}
		})
	}
}

// starved tells whether an overloaded machine has cost verdicts.
func starved(results []judge.Result) bool {
	return slices.ContainsFunc(results, func(r judge.Result) bool {
		return r.Requirement == "RUN/harness" && r.Verdict == judge.Inconclusive
	})
}

// offAndIsolated isolates a member whose node has no power: its fault cannot
// take effect.
const offAndIsolated = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: off-and-isolated}
spec:
  timeline:
  - wait: 4s
  - inject: {fault: power-off, target: node/3, as: off}
  - inject: {fault: isolate-etcd, target: etcd/3, as: cut}
  - wait: 2s
  requirements:
  - {id: HA-QR-002, judge: isolated-member, fault: cut, bound: 2E + M}
`

func runOn(t *testing.T, plant func(*clusters.Cluster), scenario string) []judge.Result {
	t.Helper()
	spec := clusters.Default()
	if plant != nil {
		plant(spec)
	}
	for _, b := range local.Binaries(spec) {
		if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
			t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
		}
	}
	s, err := scenarios.Parse("planted", []byte(offAndIsolated))
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range scenarios.All() {
		if known.Metadata.Name == scenario {
			s = known
		}
	}
	dir := t.TempDir()
	c, err := local.Create(t.Context(), spec, local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := engine.Run(t.Context(), c, s.Experiment(), engine.Options{Dir: dir + "/record", Run: fmt.Sprintf("planted-%s", t.Name()),
		Seed: 1, Harness: "test", Provider: "local", Progress: func(line string) { t.Log(line) }}); err != nil {
		t.Fatal(err)
	}
	run, err := record.Read(dir + "/record")
	if err != nil {
		t.Fatal(err)
	}
	return judge.Evaluate(run)
}
