package fault

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// IsolateEtcd cuts an etcd member off the other control-plane nodes: its peers, and the API
// servers that know several members. The API server beside it is cut off from etcd by
// that, however many members it knows.
var IsolateEtcd Fault = isolateEtcd{}

type isolateEtcd struct{}

func (isolateEtcd) Name() string { return "isolate-etcd" }

func (isolateEtcd) Doc() Doc {
	return Doc{
		Summary: "cuts the etcd traffic (ports 2379 and 2380) between an etcd member's node and the other control-plane nodes, in both directions: the API server beside it reaches no member that has a quorum; clients on that node and outside the control plane still reach the member",
		Targets: []string{"etcd"},
		Params:  map[string]string{"flap": flapDoc},
		Needs:   []string{"NetworkFaulter", "EtcdAccess", "PowerSwitch or ProcessReporter"},
		Example: "etcd/leader",
	}
}

func (f isolateEtcd) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.impairment(c, t, p)
	return err
}

func (f isolateEtcd) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.impairment(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}

func (f isolateEtcd) impairment(c framework.Cluster, t Target, p Params) (*impairment, error) {
	if err := checkEtcd(f, c, t, p); err != nil {
		return nil, err
	}
	ends, _, err := endsOf(f, c, t)
	if err != nil {
		return nil, err
	}
	x, err := newCut(f, c, t, p, ends)
	if err != nil {
		return nil, err
	}
	peers := slices.DeleteFunc(nodeNames(c.Nodes()), func(n string) bool { return n == t.Node })
	if len(peers) == 0 {
		return nil, fmt.Errorf("fault isolate-etcd: node %s is the only control-plane node: its etcd has no peers to cut off", t.Node)
	}
	x.links = linksBetween([]string{t.Node}, peers, "both", []uint16{etcdClientPort, etcdPeerPort})
	return x, nil
}
