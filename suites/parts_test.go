package suites

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// asking returns a scenario of this name that asks for a cluster.
func asking(name string, wants scenarios.Topology) *scenarios.Scenario {
	return &scenarios.Scenario{Metadata: scenarios.Metadata{Name: name}, Spec: scenarios.Spec{Cluster: wants}}
}

func TestParts(t *testing.T) {
	fuse := scenarios.Topology{Disk: "fuse"}
	slow := scenarios.Topology{ExtraArgs: map[string]map[string]string{"etcd": {"election-timeout": "3000"}}}
	large := asking("large", scenarios.Topology{})
	large.Spec.MinNodes = 5
	for _, tc := range []struct {
		name string
		all  []*scenarios.Scenario
		want string // the scenarios of each part
	}{
		{"all share one", []*scenarios.Scenario{asking("a", scenarios.Topology{}), asking("b", scenarios.Topology{})}, "a b"},
		{"what the run has anyway", []*scenarios.Scenario{asking("a", scenarios.Topology{}), asking("b", scenarios.Topology{LoadBalancer: "builtin", Disk: "none"})}, "a b"},
		{"two kinds", []*scenarios.Scenario{asking("a", fuse), asking("b", scenarios.Topology{}), asking("c", fuse)}, "a c, b"},
		{"arguments", []*scenarios.Scenario{asking("a", slow), asking("b", scenarios.Topology{}), asking("c", slow)}, "a c, b"},
		{"what does not apply", []*scenarios.Scenario{large, asking("a", fuse)}, "a"},
		{"nothing applies", []*scenarios.Scenario{large}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts, err := Parts(clusters.Default(), tc.all)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, strings.Join(p.Scenarios, " "))
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("parts are %q, want %q", strings.Join(got, ", "), tc.want)
			}
		})
	}
	parts, err := Parts(clusters.Default(), []*scenarios.Scenario{asking("a", scenarios.Topology{}), asking("b", fuse)})
	if err != nil || parts[0].Name != "cluster-1" || parts[1].Name != "cluster-2" || parts[0].Cluster.Spec.Disk != clusters.DiskNone || parts[1].Cluster.Spec.Disk != clusters.DiskFUSE {
		t.Errorf("%+v, %v", parts, err)
	}
	if _, err := Parts(clusters.Default(), []*scenarios.Scenario{asking("odd", scenarios.Topology{Disk: "floppy"})}); err == nil || !strings.Contains(err.Error(), "scenario odd asks for") {
		t.Errorf("a disk that there is not: %v", err)
	}
}
