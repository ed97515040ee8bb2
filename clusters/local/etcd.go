package local

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.EtcdOperator = (*node)(nil)

// RejoinEtcd implements framework.EtcdOperator.
func (n *node) RejoinEtcd(ctx context.Context, members []framework.EtcdPeer) error {
	if len(members) == 0 {
		return fmt.Errorf("etcd on %s is to join a cluster without members", n.Name())
	}
	return n.orderEtcd(ctx, etcdOrder{InitialCluster: etcddata.InitialCluster(members)})
}

// RestoreEtcd implements framework.EtcdOperator.
func (n *node) RestoreEtcd(ctx context.Context, file string, members []framework.EtcdPeer, bump uint64) error {
	restored := filepath.Join(n.machine.dir, "etcd-restored")
	if err := os.RemoveAll(restored); err != nil {
		return fmt.Errorf("clearing the way for a snapshot on %s: %w", n.Name(), err)
	}
	args := n.etcdArgs()
	err := etcddata.Restore{
		Snapshot: file,
		Name:     argument(args, "name"),
		PeerURLs: argument(args, "initial-advertise-peer-urls"),
		Token:    argument(args, "initial-cluster-token"),
		Members:  members,
		Bump:     bump,
	}.Into(restored)
	if err != nil {
		return fmt.Errorf("a snapshot for %s: %w", n.Name(), err)
	}
	return n.orderEtcd(ctx, etcdOrder{From: restored})
}

func (n *node) etcdArgs() []string {
	for _, c := range n.machine.components() {
		if c.Name == framework.Etcd {
			return c.Args
		}
	}
	return nil
}

// orderLimit is how long an agent may take to start its member with other data.
const orderLimit = 30 * time.Second

func (n *node) orderEtcd(ctx context.Context, order etcdOrder) error {
	ctx, cancel := agenthttp.Within(ctx, orderLimit)
	defer cancel()
	if err := n.machine.agent.Call(ctx, http.MethodPost, "etcd", order, nil); err != nil {
		return fmt.Errorf("changing the data of etcd on %s: %w", n.Name(), err)
	}
	return nil
}
