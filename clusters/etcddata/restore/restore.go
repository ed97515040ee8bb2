// Package restore makes the data of an etcd member from a snapshot. It is apart from etcddata since
// it needs etcd's own tool, which node agents are to be without.
package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// Member is a member that is held down.
type Member interface {
	framework.EtcdPeerReporter
	// ReplaceEtcdData replaces its data by those in a local directory.
	ReplaceEtcdData(ctx context.Context, dir string) error
}

// Etcd implements RestoreEtcd of framework.EtcdOperator for a member. The new cluster has a unique
// identity: a member that still has the old data must not join it.
func Etcd(ctx context.Context, m Member, file string, members []framework.EtcdPeer, bump uint64) (err error) {
	own, err := m.EtcdPeer(ctx)
	if err != nil {
		return err
	}
	sum, err := digest(file)
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	parent, remove, err := scratch.Dir("holdfast-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	dir := filepath.Join(parent, "data")
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                own.Name,
		OutputDataDir:       dir,
		PeerURLs:            own.URLs,
		InitialCluster:      etcddata.InitialCluster(members),
		RevisionBump:        bump,
		MarkCompacted:       bump > 0,
		InitialClusterToken: fmt.Sprintf("holdfast-%x-%d", sum, bump),
	})
	if err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	return m.ReplaceEtcdData(ctx, dir)
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
