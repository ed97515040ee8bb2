package backup

import (
	"bytes"
	"context"
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

// CheckOwn returns an error if a snapshot is not of cluster c. It returns nil if no etcd
// member of c has the UID, as when all have lost their data.
func CheckOwn(ctx context.Context, c framework.Cluster, file string) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil
	}
	id := identify(ctx, access, c)
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
	return fmt.Errorf("the snapshot is of another cluster: the namespace kube-system of cluster %s has the UID %s, which is not in it; --foreign restores it anyway", c.Name(), id)
}

// identify returns the UID of a cluster's namespace kube-system, from any etcd member that
// answers; nil if none has it.
func identify(ctx context.Context, access framework.EtcdAccess, c framework.Cluster) []byte {
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		etcd, err := client.NewEtcd(access, n.Name())
		if err != nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, identifyLimit)
		// This works without a quorum, too.
		answer, err := etcd.Get(limited, systemKey, clientv3.WithSerializable())
		cancel()
		_ = etcd.Close()
		if err == nil && len(answer.Kvs) == 1 {
			return uid.Find(answer.Kvs[0].Value)
		}
	}
	return nil
}
