package fault

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// IsolateEtcd cuts an etcd member off from the other control-plane nodes: its peers, and the API
// servers that know several members. This also cuts off the API server beside it from etcd,
// however many members it knows, unless it reaches etcd at another address.
var IsolateEtcd = network(&Fault{
	Name:    "isolate-etcd",
	Summary: "cuts the etcd traffic (usually ports 2379 and 2380) between an etcd member's node and the other control-plane nodes, in both directions: the API server beside it reaches no member that has a quorum; clients on that node and outside the control plane still reach the member",
	Targets: []string{"etcd"},
	Params:  []Param{flapParam},
	Needs:   []string{"NetworkFaulter", "EtcdAccess", "PowerSwitch or ProcessReporter"},
	Example: "etcd/leader",
	Effects: isolates,
}, func(r Request) (*impairment, error) {
	if _, err := onCluster[framework.EtcdAccess](r); err != nil {
		return nil, err
	}
	ends, ports, err := r.ends()
	if err != nil {
		return nil, err
	}
	x, err := r.cut(ends)
	if err != nil {
		return nil, err
	}
	if at := framework.OutsideEtcd(r.Cluster); at != "" {
		return nil, &MissingAbility{Ability: "NetworkFaulter", Of: "cluster " + r.Cluster.Name(), For: "fault isolate-etcd",
			Why: "an API server reaches etcd at " + at + ", which is not an address of a control-plane node: the API server on the isolated member's node would still reach it"}
	}
	node := r.Target.Node
	peers := slices.DeleteFunc(framework.NodeNames(r.Cluster.Nodes()), func(n string) bool { return n == node })
	if len(peers) == 0 {
		return nil, fmt.Errorf("node %s is the only control-plane node: its etcd has no peers to cut off", node)
	}
	x.links = linksBetween([]string{node}, peers, "both", ports)
	return x, nil
})
