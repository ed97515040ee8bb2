package local

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/framework"
)

// announceLimit is how long a new member may take to serve clients.
const announceLimit = 500 * time.Millisecond

func (n *node) peerURL() string {
	return "https://" + hostPort(n.Address(), component.EtcdPeerPort)
}

// etcdMembers returns the etcd members of all nodes.
func (c *Cluster) etcdMembers() scaling.Members {
	var all scaling.Members
	for _, n := range c.controlPlane() {
		all = append(all, c.etcdMember(n))
	}
	return all
}

func (c *Cluster) etcdMember(n *node) scaling.Member {
	return scaling.Member{Node: n.Name(), PeerURL: n.peerURL(), Config: func(context.Context) (clientv3.Config, error) {
		if !n.machine.powered() {
			return clientv3.Config{}, errors.New("the machine has no power")
		}
		return c.etcdAt(component.EtcdURL(n.Address())), nil
	}}
}

// announce ensures that a newly promoted member serves clients. etcd waits until its
// announcement of itself is applied, which it misses if that is part of the snapshot from which
// it started; then it retries after 5 s + 2E (publishV3 and ReqTimeout in
// go.etcd.io/etcd/server/v3). After a restart it retries immediately.
func (c *Cluster) announce(ctx context.Context, n *node) error {
	soon, cancel := context.WithTimeout(ctx, announceLimit)
	defer cancel()
	if _, err := c.etcdMember(n).Status(soon); err == nil {
		return nil
	}
	if err := n.Kill(ctx, framework.Etcd, scaling.MemberCall); err != nil && !errors.Is(err, framework.ErrNothingDone) {
		return err
	}
	return n.Start(ctx, framework.Etcd)
}
