package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// askLimit is how long a member may take to answer one request.
const askLimit = 5 * time.Second

// ask asks the member on a node, without a quorum, for its member list and its revision.
func ask(ctx context.Context, access framework.EtcdAccess, node string) (peers []framework.EtcdPeer, revision int64, err error) {
	err = client.AskEtcd(ctx, access, node, askLimit, func(ctx context.Context, etcd *clientv3.Client) error {
		read, err := etcd.Get(ctx, "holdfast/none", clientv3.WithSerializable())
		if err != nil {
			return err
		}
		answer, err := etcd.MemberList(ctx, clientv3.WithSerializable())
		if err != nil {
			return err
		}
		peers = members.PeersOf(answer.Members, "")
		revision = read.Header.Revision
		return nil
	})
	return peers, revision, err
}

// read reads with a quorum through the member on a node.
func read(ctx context.Context, access framework.EtcdAccess, node string) error {
	return client.AskEtcd(ctx, access, node, askLimit, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.Get(ctx, "holdfast/none")
		return err
	})
}

// Serving returns the first node whose etcd member reads with a quorum, or else the first node, if any.
func Serving(ctx context.Context, access framework.EtcdAccess, nodes []string) string {
	answers := framework.Map(nodes, func(node string) error { return read(ctx, access, node) })
	if len(nodes) == 0 {
		return ""
	}
	return nodes[max(0, slices.Index(answers, nil))]
}

// awaitRevision returns when the member on a node reads with a quorum, at a revision or a
// higher one.
func awaitRevision(ctx context.Context, access framework.EtcdAccess, node string, revision int64) (proof string, err error) {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return "", err
	}
	defer etcd.Close()
	err = until(ctx, func(ctx context.Context) error {
		answer, err := etcd.Get(ctx, "holdfast/none")
		if err != nil {
			return err
		}
		if answer.Header.Revision < revision {
			return fmt.Errorf("it is at revision %d, and the snapshot at %d", answer.Header.Revision, revision)
		}
		proof = fmt.Sprintf("it reads with a quorum, at revision %d", answer.Header.Revision)
		return nil
	})
	return proof, err
}
