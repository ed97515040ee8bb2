package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// systemKey is the key of the namespace kube-system by default. Its UID identifies a cluster: it
// is unique and never changes.
const systemKey = "/registry/namespaces/kube-system"

// identifyLimit is how long a member may take to identify its cluster.
const identifyLimit = 3 * time.Second

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// CheckOwn returns an error if a snapshot is not of cluster c, or if that cannot be checked: a
// member that does not answer may have the UID, and data that a restore would delete. It returns
// nil if all etcd members of c answer and none has the UID: all have lost their data.
func CheckOwn(ctx context.Context, c framework.Cluster, file string) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil
	}
	id, err := identify(ctx, access, c)
	if err != nil {
		return fmt.Errorf("failed to check whether the snapshot is from cluster %s, by the UID of its namespace kube-system: %w; start an etcd member that has the cluster's data (`holdfast heal`), or restore the snapshot unchecked with --foreign", c.Name(), err)
	}
	if id == nil {
		return nil
	}
	snapshot, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if bytes.Contains(snapshot, id) {
		return nil
	}
	return fmt.Errorf("the snapshot is from another cluster: the namespace kube-system of cluster %s has the UID %s, which is not in it; --foreign restores it anyway", c.Name(), id)
}

// identify returns the UID of a cluster's namespace kube-system, from any etcd member that has
// it; nil if all answer that they do not.
func identify(ctx context.Context, access framework.EtcdAccess, c framework.Cluster) ([]byte, error) {
	var errs []error
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		id, err := systemUID(ctx, access, n.Name())
		if id != nil {
			return id, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("etcd on %s: %w", n.Name(), err))
		}
	}
	return nil, errors.Join(errs...)
}

// systemUID returns the UID of the namespace kube-system in the member on a node; nil if the
// member does not have that namespace.
func systemUID(ctx context.Context, access framework.EtcdAccess, node string) ([]byte, error) {
	var answer *clientv3.GetResponse
	err := client.AskEtcd(ctx, access, node, identifyLimit, func(ctx context.Context, etcd *clientv3.Client) (err error) {
		// This works without a quorum, too.
		answer, err = etcd.Get(ctx, systemKey, clientv3.WithSerializable())
		return err
	})
	if err != nil || len(answer.Kvs) == 0 {
		return nil, err
	}
	id := uid.Find(answer.Kvs[0].Value)
	if id == nil {
		return nil, fmt.Errorf("the value of %s has no UID: it may be encrypted", systemKey)
	}
	return id, nil
}
