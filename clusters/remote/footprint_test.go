package remote

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
)

// TestFootprint: a dry run lists on which nodes the agent is, all that it has there, and what the
// run has in etcd; with a kubeconfig alone, nothing. Of power commands it lists the programs alone.
func TestFootprint(t *testing.T) {
	c := clusters.Default()
	c.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Nodes: []clusters.InventoryNode{testNode()}}}
	if all := (Provider{}).Footprint(c); len(all) > 0 {
		t.Errorf("with a kubeconfig: %q", all)
	}
	c.Spec.Inventory.Spec.Nodes[0].SSH = "root@10.0.0.11"
	c.Spec.Inventory.Spec.Nodes[0].Power = &clusters.InventoryPower{Off: "PASS=hunter2 bmc -H bmc-1 -P pw off", On: "ipmitool -H bmc-1 -U admin -P hunter2 chassis power on", Status: "bmc-status"}
	all := strings.Join((Provider{}).Footprint(c), "\n")
	for _, what := range append(agent.Footprint(), "the node agent, as root, on node-1 (ssh root@10.0.0.11)\n", "keys under /holdfast/", clusters.SnapshotDir,
		"the power of node-1 is cut and restored on this machine, by sh: off: PASS [redacted]; on: ipmitool [redacted]; status: bmc-status") {
		if !strings.Contains(all, what) {
			t.Errorf("%q is missing in:\n%s", what, all)
		}
	}
	if strings.Contains(all, "hunter2") || strings.Contains(all, "-P") || strings.Contains(all, "admin") {
		t.Errorf("arguments of power commands are in:\n%s", all)
	}
}
