package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.EtcdOperator = (*node)(nil)

// RejoinEtcd implements framework.EtcdOperator.
func (n *node) RejoinEtcd(ctx context.Context, members []framework.EtcdPeer) error {
	if len(members) == 0 {
		return fmt.Errorf("etcd on %s is to join a cluster without members", n.Name())
	}
	return n.orderEtcd(ctx, etcdOrder{InitialCluster: initialCluster(members)})
}

// RestoreEtcd implements framework.EtcdOperator. The new cluster has an
// identity that its members have in common with no other: a member that still
// has the old data must not take them for its own.
func (n *node) RestoreEtcd(ctx context.Context, file string, members []framework.EtcdPeer) error {
	restored := filepath.Join(n.machine.dir, "etcd-restored")
	if err := os.RemoveAll(restored); err != nil {
		return fmt.Errorf("clearing the way for a snapshot on %s: %w", n.Name(), err)
	}
	sum, err := digest(file)
	if err != nil {
		return fmt.Errorf("reading the snapshot for %s: %w", n.Name(), err)
	}
	args := n.etcdArgs()
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                argument(args, "name"),
		OutputDataDir:       restored,
		PeerURLs:            strings.Split(argument(args, "initial-advertise-peer-urls"), ","),
		InitialCluster:      initialCluster(members),
		InitialClusterToken: fmt.Sprintf("%s-%x", argument(args, "initial-cluster-token"), sum),
	})
	if err != nil {
		return fmt.Errorf("restoring a snapshot for %s: %w", n.Name(), err)
	}
	return n.orderEtcd(ctx, etcdOrder{From: restored})
}

// digest returns the SHA-256 of a file, which may be as large as etcd's database.
func digest(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

func (n *node) etcdArgs() []string {
	for _, c := range n.machine.config.Components {
		if c.Name == framework.Etcd {
			return c.Args
		}
	}
	return nil
}

// orderLimit is how long an agent may take to start its member with other data.
const orderLimit = 30 * time.Second

func (n *node) orderEtcd(ctx context.Context, order etcdOrder) error {
	b, err := json.Marshal(order)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, orderLimit)
	defer cancel()
	resp, err := n.machine.agent.send(ctx, http.MethodPost, "etcd", b)
	if err != nil {
		return fmt.Errorf("changing the data of etcd on %s: %w", n.Name(), err)
	}
	return resp.Body.Close()
}

// initialCluster writes members as etcd's argument of that name.
func initialCluster(members []framework.EtcdPeer) string {
	var all []string
	for _, m := range members {
		for _, url := range m.URLs {
			all = append(all, m.Name+"="+url)
		}
	}
	return strings.Join(all, ",")
}
