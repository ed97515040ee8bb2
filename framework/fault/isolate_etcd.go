package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// IsolateEtcd cuts an etcd member off its peers.
var IsolateEtcd Fault = isolateEtcd{}

type isolateEtcd struct{}

// etcdPeerPort is the port on which etcd members talk to each other.
const etcdPeerPort = 2380

func (isolateEtcd) Name() string { return "isolate-etcd" }

func (isolateEtcd) Doc() Doc {
	return Doc{
		Summary: "cuts the peer traffic (port 2380) of an etcd member, in both directions; its clients still reach it",
		Targets: []string{"etcd"},
		Needs:   []string{"NetworkFaulter", "EtcdAccess", "PowerSwitch or ProcessReporter"},
		Example: "etcd/leader",
	}
}

func (f isolateEtcd) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.cut(c, t, p)
	return err
}

func (f isolateEtcd) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	cut, err := f.cut(c, t, p)
	if err != nil {
		return nil, err
	}
	return cut.inject(ctx)
}

func (f isolateEtcd) cut(c framework.Cluster, t Target, p Params) (*cut, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	if t.Component != framework.Etcd {
		return nil, fmt.Errorf("fault isolate-etcd: target %s is not etcd: it takes an etcd member, such as etcd/leader or etcd/2", t.Asked)
	}
	if _, _, err := componentHolder(f, c, t); err != nil {
		return nil, err
	}
	if _, err := ability[framework.EtcdAccess](c, "cluster "+c.Name(), "fault isolate-etcd"); err != nil {
		return nil, err
	}
	n, err := node(c, t)
	if err != nil {
		return nil, err
	}
	cut, err := newCut(f, c, n, t, p)
	if err != nil {
		return nil, err
	}
	peer := []uint16{etcdPeerPort}
	for _, other := range nodeNames(c.Nodes()) {
		if other != t.Node {
			cut.links = append(cut.links, framework.Link{From: t.Node, To: other, Ports: peer}, framework.Link{From: other, To: t.Node, Ports: peer})
		}
	}
	if len(cut.links) == 0 {
		return nil, fmt.Errorf("fault isolate-etcd: node %s is the only control-plane node: its etcd has no peers to cut off", t.Node)
	}
	cut.components = []framework.Component{framework.Etcd}
	return cut, nil
}
