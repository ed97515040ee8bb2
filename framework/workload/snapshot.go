package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/scratch"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Snapshot takes a snapshot of each etcd member except the one on a node, and verifies it: its
// checksum, and that etcd's own tool can read it. The operations have the purpose "snapshot", a
// description of the content as their value, its revision, and as their header the revision that
// the member had before. One that does not verify is not Found, and its Error says why. If the
// harness could not take or store one, that is an error, and the member has no operation.
func Snapshot(ctx context.Context, c framework.Cluster, node string, w *record.Writer) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return fmt.Errorf("snapshot: cluster %s gives no access to its etcd members", c.Name())
	}
	dir, remove, err := scratch.Dir("holdfast-snapshot-")
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer func() { _ = remove() }()
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		if n.Name() == node {
			continue
		}
		op := record.Op{Client: "snapshot", Entrance: n.Name(), API: "etcd", Type: record.OpGet, Key: "snapshot", Purpose: "snapshot", Call: w.Now(), Outcome: record.OK}
		file := filepath.Join(dir, n.Name())
		var status backup.Status
		if op.Header, err = backup.Save(ctx, access, n.Name(), file); err != nil {
			op.Outcome = record.Unknown
		} else {
			status, err = backup.Verify(file)
		}
		switch {
		case err == nil:
			op.Found, op.Revision = true, strconv.FormatInt(status.Revision, 10)
			op.Value = fmt.Sprintf("%d keys, %d bytes", status.Keys, status.Size)
		case errors.Is(err, backup.ErrCut) || errors.As(err, new(*fs.PathError)) || ctx.Err() != nil:
			return fmt.Errorf("snapshot of etcd on %s: %w", n.Name(), err)
		default:
			op.Error = client.Shorten(err.Error())
		}
		op.Return = w.Now()
		if err := w.Append(record.KindOp, op); err != nil {
			return err
		}
	}
	return w.Err()
}
