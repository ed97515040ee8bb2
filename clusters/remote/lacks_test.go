package remote

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// TestReasons: what a fault lacks on a vendor's cluster has the true reason, and no advice to create
// another cluster.
func TestReasons(t *testing.T) {
	spec := clusters.Default()
	spec.Metadata.Name = "theirs"
	at := &plain{spec: clusters.Node{Name: "node-1"}, components: []framework.Component{framework.Etcd, framework.APIServer}}
	reached := &Cluster{Observed: &Observed{spec: spec, access: &access{Inventory: &clusters.Inventory{}}}}
	reached.nodes = []framework.Node{&node{plain: at, cluster: reached}}
	for _, tc := range []struct {
		fault  *fault.Fault
		target fault.Target
		want   string
	}{
		{fault.Pause, fault.Target{Node: "node-1", Asked: "node/1"}, "fault pause needs the ability Pauser, which node node-1 does not have: only its hypervisor can pause a machine"},
		{fault.PowerOff, fault.Target{Node: "node-1", Asked: "node/1"}, "needs the ability PowerSwitch, which node node-1 does not have: the inventory has no power commands for it"},
		{fault.DiskSlow, fault.Target{Node: "node-1", Component: framework.Etcd, Asked: "etcd/node-1"}, "needs the ability DiskFaulter, which node node-1 does not have: disk faults need a file system of holdfast's own"},
		{fault.ClockJump, fault.Target{Node: "node-1", Component: framework.APIServer, Asked: "apiserver/node-1"}, "needs the ability ClockShifter, which node node-1 does not have: its components read the clock of the machine"},
		{fault.Kill, fault.Target{Host: framework.BalancerHost, Component: framework.LoadBalancer, Asked: "balancer"}, "which cluster theirs does not have: holdfast reaches only the nodes of the inventory, not the load balancer"},
	} {
		err := tc.fault.Check(reached, tc.target, fault.Params{TTL: 1})
		if missing, ok := errors.AsType[*fault.MissingAbility](err); !ok || !strings.Contains(missing.Error(), tc.want) || strings.Contains(missing.Error(), "holdfast up") {
			t.Errorf("%s: %v, want %s", tc.fault.Name, err, tc.want)
		}
	}
	if why := (&Cluster{}).WhyNot("Scaler"); !strings.Contains(why, "does not change the nodes") {
		t.Error(why)
	}

	for ssh, want := range map[string]string{"": "the inventory has no ssh for its nodes", "root@10.0.0.11": `the owner's consent does not allow "process"`} {
		n := testNode()
		n.SSH = ssh
		a := &access{Inventory: &clusters.Inventory{Spec: clusters.InventorySpec{Nodes: []clusters.InventoryNode{n}}}}
		c := &Observed{spec: clusters.Default(), access: a, alone: a.onlyAPI()}
		c.spec.Spec.Nodes = []clusters.NodeSpec{{Name: n.Name}}
		c.find()
		err := fault.Kill.Check(c, fault.Target{Node: "node-1", Component: framework.APIServer, Asked: "apiserver/node-1"}, fault.Params{TTL: 1})
		if missing, ok := errors.AsType[*fault.MissingAbility](err); !ok || !strings.Contains(missing.Error(), "which node node-1 does not have: "+want) {
			t.Errorf("ssh %q: %v, want %s", ssh, err, want)
		}
	}
}
