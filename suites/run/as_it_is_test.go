package run

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestSettledAsItIs lists the rows of the catalogue that no scenario settles on an existing cluster
// that stays, whatever the consent of its owner, each with the reason.
func TestSettledAsItIs(t *testing.T) {
	const (
		changes = "the scenario does not leave the cluster as it found it"
		adds    = "the scenario adds nodes, but the provider lends cannot add any"
		disk    = "the scenario needs disk fuse"
		version = "the scenario needs Kubernetes v1.36.3"
		older   = "the scenario needs Kubernetes v1.35.8"
	)
	both := map[string][]string{
		// Disks that lose, delay, refuse or damage data: it has to pass through holdfast's file system.
		"HA-QR-016": {disk}, "HA-QR-017": {disk}, "HA-RC-007": {disk}, "HA-RC-009": {disk},
		// Another way to elect, and balancers that are made with the cluster.
		"HA-LE-011": {"elected by supervisor"},
		"HA-CL-011": {"the scenario needs etcd balancer affinity"},
		"HA-CL-016": {"the scenario needs balancer vip"},
		"HA-MB-006": {"the scenario needs balancer on-demand"},
		// The nodes that the cluster had are removed, lost or replaced.
		"HA-MB-001": {changes}, "HA-MB-002": {changes}, "HA-MB-003": {changes}, "HA-MB-004": {changes}, "HA-MB-005": {changes},
		"HA-MB-008": {changes}, "HA-MB-009": {changes}, "HA-MB-010": {changes}, "HA-MB-011": {changes},
		// What was written since the snapshot is lost.
		"HA-RC-005": {changes},
		// Certificates, and CAs, are replaced.
		"HA-SEC-004": {changes},
		// An upgrade cannot be undone, and starts from the version before, or the one before that.
		"HA-UP-001": {version, older}, "HA-UP-002": {version}, "HA-UP-003": {version}, "HA-UP-004": {version}, "HA-UP-005": {version, older},
		"HA-UP-006": {version, older}, "HA-UP-007": {version}, "HA-UP-008": {version},
	}
	withoutNodes := map[string][]string{"HA-EP-008": {changes, adds}, "HA-EP-009": {changes, adds}, "HA-CL-002": {changes, adds}}
	maps.Copy(withoutNodes, both)

	theirs := clusters.Default()
	theirs.Spec.LoadBalancer.Kind = clusters.BalancerExternal
	theirs.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Nodes: []clusters.InventoryNode{{Name: "cp-1"}, {Name: "cp-2"}, {Name: "cp-3"}}}}
	for _, test := range []struct {
		name     string
		provider clusters.Provider
		cluster  *clusters.Cluster
		want     map[string][]string
	}{
		{"an inventory", lends{}, theirs, withoutNodes},
		{"nodes can be added", lends{expands: true}, clusters.Default(), both},
	} {
		t.Run(test.name, func(t *testing.T) {
			reasons := map[string][]string{} // of each row, by the scenarios that would settle it
			settled := map[string]bool{}
			for _, s := range AsItIs(t.Context(), test.provider, test.cluster, scenarios.All()) {
				for _, r := range s.Spec.Requirements {
					why := s.NotFor(3)
					reasons[r.ID], settled[r.ID] = append(reasons[r.ID], why), settled[r.ID] || why == ""
				}
			}
			for _, id := range slices.Sorted(maps.Keys(reasons)) {
				want, known := test.want[id]
				if known == settled[id] {
					t.Errorf("%s is settled: %t, want %t; reasons %q", id, settled[id], !known, reasons[id])
					continue
				}
				for _, why := range reasons[id] {
					if known && !slices.ContainsFunc(want, func(part string) bool { return strings.Contains(why, part) }) {
						t.Errorf("%s is not settled since %q, want %q", id, why, want)
					}
				}
				for _, part := range want {
					if !slices.ContainsFunc(reasons[id], func(why string) bool { return strings.Contains(why, part) }) {
						t.Errorf("%s: nothing says %q: %q", id, part, reasons[id])
					}
				}
			}
			for id := range test.want {
				if reasons[id] == nil {
					t.Errorf("no scenario settles %s on any cluster", id)
				}
			}
		})
	}
}

// TestOfVersions shows that a version that the user chose is not replaced by that of a topology.
func TestOfVersions(t *testing.T) {
	all := []*scenarios.Scenario{{}, {Spec: scenarios.Spec{Cluster: scenarios.Topology{Kubernetes: "v1.36.3"}}},
		{Spec: scenarios.Spec{Cluster: scenarios.Topology{Kubernetes: "v1.36.3", Etcd: "v3.6.16"}}}, {Missing: "no way", Spec: scenarios.Spec{Cluster: scenarios.Topology{Etcd: "v3.6.16"}}}}
	const kubernetes, etcd = "the scenario needs Kubernetes v1.36.3, but this run uses v1.37.1", "the scenario needs etcd v3.6.16, but this run uses v3.5.12"
	for _, test := range []struct {
		version          string
		kubernetes, etcd bool
		want             []string
	}{
		{"v1.37.1", false, false, []string{"", "", "", "no way"}},
		{"v1.37.1", true, false, []string{"", kubernetes, kubernetes, "no way"}},
		{"v1.36.3", true, false, []string{"", "", "", "no way"}},
		{"v1.37.1", false, true, []string{"", "", etcd, "no way"}},
		{"v1.37.1", true, true, []string{"", kubernetes, kubernetes, "no way"}},
	} {
		c := clusters.Default()
		c.Spec.KubernetesVersion = test.version
		if test.etcd {
			c.Spec.EtcdVersion = "v3.5.12"
		}
		for i, s := range OfVersions(c, test.kubernetes, test.etcd, all) {
			if s.Missing != test.want[i] {
				t.Errorf("Kubernetes %s, chosen %t, etcd %t: scenario %d: %q, want %q", test.version, test.kubernetes, test.etcd, i, s.Missing, test.want[i])
			}
			if changed := s != all[i]; changed != (test.want[i] != "" && i != 3) || i < 3 && all[i].Missing != "" {
				t.Errorf("scenario %d: copied %t, and the scenario itself has %q", i, changed, all[i].Missing)
			}
		}
	}
	// The catalogue has scenarios that upgrade.
	c := clusters.Default()
	n := 0
	for _, s := range OfVersions(c, true, false, scenarios.All()) {
		if s.Missing != "" {
			n++
		}
	}
	if n < 4 {
		t.Errorf("%d scenarios need another version than %s", n, c.Spec.KubernetesVersion)
	}
}
