package workload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Snapshot takes a snapshot of each etcd member but the one on a node, and verifies it: its
// checksum, and that etcd's own tool can read it. The operations have the purpose
// "snapshot", what is in it as their value, its revision, and as their header the revision
// that the member had before. One that does not verify is not Found, and its Error says why.
func Snapshot(ctx context.Context, c framework.Cluster, node string, w *record.Writer) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return fmt.Errorf("snapshot: cluster %s gives no access to its etcd members", c.Name())
	}
	dir, err := os.MkdirTemp("", "holdfast-snapshot-")
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, n := range c.Nodes() {
		if n.Name() == node || !slices.Contains(n.Components(), framework.Etcd) {
			continue
		}
		op := record.Op{Client: "snapshot", Entrance: n.Name(), API: "etcd", Type: record.OpGet, Key: "snapshot", Purpose: "snapshot", Call: w.Now(), Outcome: record.OK}
		file := filepath.Join(dir, n.Name())
		if op.Header, err = saveSnapshot(ctx, access, n.Name(), file); err != nil {
			op.Outcome, op.Error = record.Unknown, client.Shorten(err.Error())
		} else if status, err := verifySnapshot(file); err != nil {
			op.Error = client.Shorten(err.Error())
		} else {
			op.Found, op.Revision = true, strconv.FormatInt(status.Revision, 10)
			op.Value = fmt.Sprintf("%d keys, %d bytes", status.TotalKey, status.TotalSize)
		}
		op.Return = w.Now()
		if err := w.Append(record.KindOp, op); err != nil {
			return err
		}
	}
	return w.Err()
}

// saveSnapshot writes a snapshot of a member to a file, and returns the member's revision
// before.
func saveSnapshot(ctx context.Context, access framework.EtcdAccess, node, file string) (revision string, err error) {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return "", err
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	// Of a quorum: what was acknowledged before must be in it.
	answer, err := etcd.Get(ctx, "holdfast/none")
	if err != nil {
		return "", err
	}
	r, err := etcd.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, r)
	return strconv.FormatInt(answer.Header.Revision, 10), errors.Join(err, f.Close())
}

// verifySnapshot checks the sum at the end of a snapshot, and reads it.
func verifySnapshot(file string) (snapshot.Status, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return snapshot.Status{}, err
	}
	// etcd appends the sum to a database, whose size is one of whole sectors.
	if len(b)%512 != sha256.Size {
		return snapshot.Status{}, fmt.Errorf("the snapshot of %d bytes has no checksum at its end: it is cut short", len(b))
	}
	data, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if is := sha256.Sum256(data); !bytes.Equal(is[:], sum) {
		return snapshot.Status{}, errors.New("the checksum of the snapshot is not that of its data")
	}
	return snapshot.NewV3(zap.NewNop()).Status(file)
}
