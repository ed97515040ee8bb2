package remote

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
)

// TestFootprint: a dry run lists on which nodes the agent is, all that it has there, and what the
// run has in etcd; with a kubeconfig alone, nothing.
func TestFootprint(t *testing.T) {
	c := clusters.Default()
	c.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Nodes: []clusters.InventoryNode{testNode()}}}
	if all := (Provider{}).Footprint(c); len(all) > 0 {
		t.Errorf("with a kubeconfig: %q", all)
	}
	c.Spec.Inventory.Spec.Nodes[0].SSH = "root@10.0.0.11"
	c.Spec.Inventory.Spec.Nodes[0].Power = &clusters.InventoryPower{Off: "bmc --password hunter2 off", On: "bmc on", Status: "bmc status"}
	all := strings.Join((Provider{}).Footprint(c), "\n")
	for _, what := range append(agent.Footprint(), "the node agent, as root, on node-1 (ssh root@10.0.0.11)\n", "keys under /holdfast/", clusters.SnapshotDir,
		"the power of node-1 is cut and restored on this machine, by sh: off: bmc --password [redacted] off; on: bmc on; status: bmc status") {
		if !strings.Contains(all, what) {
			t.Errorf("%q is missing in:\n%s", what, all)
		}
	}
}
