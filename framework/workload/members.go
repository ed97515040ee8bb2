package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// strangerPort is a port of a node on which no etcd member listens.
const strangerPort = "2399"

// AddMember asks each etcd member except the one on a node to add a voting member that does not
// exist: its peer URL is a port of that node on which no process listens. The operations have the
// purpose "add-member" and the URL as their key. One that is refused because a member is down
// counts as Refused, one for another reason as Unknown.
//
// An added member must be removed again: undo does that, as soon as there is a quorum. It is nil
// if none was added.
func AddMember(ctx context.Context, c framework.Cluster, node string, w *record.Writer) (undo func(context.Context) error, err error) {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil, fmt.Errorf("failed to add a member: cluster %s gives no access to its etcd members", c.Name())
	}
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		if n.Name() == node {
			continue
		}
		peer := &url.URL{Scheme: "https", Host: net.JoinHostPort(n.Address().String(), strangerPort)}
		taken, err := addMember(ctx, access, n.Name(), peer.String(), w)
		if taken { // also if it could not be recorded
			return func(ctx context.Context) error { return removeMember(ctx, access, n.Name(), peer.String()) }, err
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, w.Err()
}

func addMember(ctx context.Context, access framework.EtcdAccess, node, peer string, w *record.Writer) (taken bool, err error) {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return false, fmt.Errorf("failed to add a member: %w", err)
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	op := record.Op{Client: "members", Entrance: node, API: "etcd", Type: record.OpCreate, Key: peer, Purpose: "add-member", Call: w.Now(), Outcome: record.OK}
	_, err = etcd.MemberAdd(ctx, []string{peer})
	if err != nil {
		op.Outcome, op.Error = record.Unknown, client.Shorten(err.Error())
		if is := rpctypes.Error(err); errors.Is(is, rpctypes.ErrUnhealthy) || errors.Is(is, rpctypes.ErrMemberNotEnoughStarted) {
			op.Outcome = record.Refused
		}
	}
	op.Return = w.Now()
	return op.Outcome != record.Refused, w.Append(record.KindOp, op)
}

// removeMember removes the member with a peer URL, if there is one.
func removeMember(ctx context.Context, access framework.EtcdAccess, node, peer string) error {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return err
	}
	defer etcd.Close()
	err = client.Until(ctx, tokenPause, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if slices.Contains(m.PeerURLs, peer) {
				_, err = etcd.MemberRemove(ctx, m.ID)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("failed to remove the etcd member at %s, which was added on purpose: %w", peer, err)
	}
	return nil
}
