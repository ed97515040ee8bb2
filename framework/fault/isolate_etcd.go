package fault

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// IsolateEtcd cuts an etcd member off its peers.
var IsolateEtcd Fault = isolateEtcd{}

type isolateEtcd struct{}

func (isolateEtcd) Name() string { return "isolate-etcd" }

func (isolateEtcd) Doc() Doc {
	return Doc{
		Summary: "cuts the peer traffic (port 2380) of an etcd member, in both directions; its clients still reach it",
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
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	if t.Component != framework.Etcd {
		return nil, fmt.Errorf("fault isolate-etcd: target %s is not etcd: it takes an etcd member, such as etcd/leader or etcd/2", t.Asked)
	}
	ends, _, err := endsOf(f, c, t)
	if err != nil {
		return nil, err
	}
	if _, err := ability[framework.EtcdAccess](c, "cluster "+c.Name(), "fault isolate-etcd"); err != nil {
		return nil, err
	}
	x, err := newImpairment(f, c, t, p, ends)
	if err != nil {
		return nil, err
	}
	x.asked, x.shows = framework.Impairment{Cut: true}, drops
	if x.asked.FlapOn, x.asked.FlapOff, err = flapParam(f, p); err != nil {
		return nil, err
	}
	peers := slices.DeleteFunc(nodeNames(c.Nodes()), func(n string) bool { return n == t.Node })
	if len(peers) == 0 {
		return nil, fmt.Errorf("fault isolate-etcd: node %s is the only control-plane node: its etcd has no peers to cut off", t.Node)
	}
	x.links = linksBetween([]string{t.Node}, peers, "both", []uint16{etcdPeerPort})
	return x, nil
}
