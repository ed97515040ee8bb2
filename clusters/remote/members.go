package remote

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// membersLimit is how long a member may take to answer a request.
const membersLimit = 10 * time.Second

// onlyMembers refuses a cluster of etcd unless its voting members are exactly those on the nodes. A
// quorum counts all of them, also one whose machine is gone, and broken counts the nodes. Members that
// do not answer may be any of those that no other node has: the check of the steady state asks them.
func onlyMembers(ctx context.Context, access framework.EtcdAccess, nodes []string) error {
	answers := framework.Map(nodes, func(node string) (answer *clientv3.MemberListResponse) {
		_ = client.AskEtcd(ctx, access, node, membersLimit, func(ctx context.Context, etcd *clientv3.Client) (err error) {
			answer, err = etcd.MemberList(ctx)
			return err
		})
		return answer
	})
	list, on := &clientv3.MemberListResponse{}, map[uint64]string{} // the nodes by their members
	for i, a := range answers {
		if a != nil {
			list, on[a.Header.MemberId] = a, nodes[i]
		}
	}
	silent := len(nodes) - len(on)
	var others []string
	for _, m := range list.Members {
		switch {
		case m.IsLearner:
		case on[m.ID] == "":
			others = append(others, fmt.Sprintf("%x (name %q, at %s)", m.ID, m.Name, strings.Join(m.PeerURLs, ",")))
		default:
			delete(on, m.ID)
		}
	}
	if len(others) > silent {
		return fmt.Errorf("%w: etcd's quorum counts members that are not on any node of the inventory: add their hosts to the inventory, or, if the hosts are gone, remove the members (etcdctl member remove); members not found on a node that answers: %s",
			clusters.ErrUnsafe, strings.Join(others, ", "))
	}
	for id, node := range on {
		return fmt.Errorf("%w: member %x of etcd, on %s, does not vote in the cluster of the other nodes' members: is it still joining?", clusters.ErrUnsafe, id, node)
	}
	return nil
}

// kubeSystem is the key of the namespace whose UID identifies a cluster, with the default --etcd-prefix.
const kubeSystem = "/registry/namespaces/kube-system"

// sameCluster refuses members that keep the objects of another cluster than the one with this UID. A
// host without a kubelet is known by its address alone, which one of another site may have as well.
// What a member does not show, or shows encrypted, refuses nothing.
func sameCluster(ctx context.Context, access framework.EtcdAccess, nodes []string, uid string) error {
	return framework.Each(nodes, func(node string) error {
		var answer *clientv3.GetResponse
		err := client.AskEtcd(ctx, access, node, membersLimit, func(ctx context.Context, etcd *clientv3.Client) (err error) {
			answer, err = etcd.Get(ctx, kubeSystem, clientv3.WithSerializable())
			return err
		})
		if err != nil || len(answer.Kvs) == 0 {
			return nil
		}
		if v := answer.Kvs[0].Value; bytes.HasPrefix(v, []byte("k8s:enc:")) || bytes.Contains(v, []byte(uid)) {
			return nil
		}
		return fmt.Errorf("%w: etcd on %s keeps the objects of another cluster, whose kube-system has a UID other than %s: correct ssh in the inventory", clusters.ErrUnsafe, node, uid)
	})
}
