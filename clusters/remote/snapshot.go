package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
)

// snapshot saves a snapshot of etcd before actions that may lose data or quorum. If etcd runs
// outside the cluster's nodes, holdfast cannot harm it, and no snapshot is taken.
func (c *Cluster) snapshot(ctx context.Context, o clusters.Options) error {
	for _, n := range c.reached {
		if !slices.Contains(n.Components(), framework.Etcd) {
			continue
		}
		file, status, err := saveSnapshot(ctx, c, n.Name(), o.Snapshots)
		if err != nil {
			return fmt.Errorf("failed to take a snapshot of etcd on %s, which is required before anything that may lose data (the consent allows %s): %w", n.Name(), names(c.allowed().Levels), err)
		}
		o.Progress(fmt.Sprintf("kept a verified snapshot of etcd in %s: %s", file, status))
		return nil
	}
	return nil
}

// saveSnapshot writes a snapshot of the member on a node to a new file, and verifies that it is
// complete and has every previously acknowledged write.
func saveSnapshot(ctx context.Context, access framework.EtcdAccess, node, dir string) (file string, status backup.Status, err error) {
	if dir == "" {
		return "", status, errors.New("no directory is set to save it in")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", status, err
	}
	file = filepath.Join(dir, time.Now().UTC().Format("20060102-150405.000")+"-"+node+".db")
	revision, err := backup.Save(ctx, access, node, file)
	if err == nil {
		status, err = verified(file, revision)
	}
	if err != nil {
		_ = os.Remove(file)
	}
	return file, status, err
}

// verified returns the content of a snapshot that is complete and has a revision.
func verified(file, revision string) (backup.Status, error) {
	status, err := backup.Verify(file)
	if err != nil {
		return status, err
	}
	if before, err := strconv.ParseInt(revision, 10, 64); err != nil || status.Revision < before {
		return status, fmt.Errorf("the snapshot has revision %d, and etcd had %s before", status.Revision, revision)
	}
	return status, nil
}
