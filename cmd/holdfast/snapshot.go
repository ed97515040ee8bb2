package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework/backup"
)

func newSnapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save a snapshot of a running cluster's etcd, or restore one",
		Example: `  holdfast snapshot save before.db
  holdfast snapshot restore before.db`,
	}
	cmd.AddCommand(newSnapshotSaveCommand(), newSnapshotRestoreCommand())
	return cmd
}

func newSnapshotSaveCommand() *cobra.Command {
	node := ""
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save a snapshot of etcd to a new file",
		Long: `Save a snapshot of one etcd member of a running cluster to a new file, and verify its
checksum. The snapshot contains every write that was acknowledged before the command was
called, since it is taken after a quorum read. A minority of the members may be down.

Exit codes: 0 done, 2 refused (no file was written), 3 failed.`,
		Example: `  holdfast snapshot save before.db
  holdfast snapshot save before.db --node node-2 -o json`,
		Args: arguments("FILE"),
	}
	cmd.Flags().StringVar(&node, "node", "", "`name` of the node whose member is read (default: the first one that answers)")
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := filepath.Abs(args[0])
		if err == nil {
			if _, err = os.Lstat(file); err == nil {
				return usageError("%s exists: name a file that does not", args[0])
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return exitWith(exitUsage, err)
		}
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return exitWith(exitUsage, fmt.Errorf("failed to save a snapshot to %s: %w", args[0], err))
		}
		return change(cmd, open, output, keeper.ChangeRequest{Save: file, Node: node}, "a snapshot of cluster %s is in "+strings.ReplaceAll(args[0], "%", "%%"))
	}
	return cmd
}

func newSnapshotRestoreCommand() *cobra.Command {
	foreign := false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a running cluster to a snapshot of etcd",
		Long: fmt.Sprintf(`Restore a running cluster to a snapshot of etcd: every member is stopped and starts as
a member of a new cluster with the snapshot's data, then API servers, controller managers and
schedulers are restarted. What was written since the snapshot is lost. It works on each
cluster of holdfast up, --attach included, and also if etcd has permanently lost its quorum.
If no member that answers lists a member for each node, the members are taken from the
configuration of the nodes.

The revision is raised by %d above that of the snapshot and of every member
that answers, and all earlier revisions are compacted, so that clients do not see it go
back: their watches end with 410 Gone, and they list again.

A kubelet waits for up to five minutes before it starts etcd or an API server that has
exited often in the last ten minutes; the command waits for that.

The snapshot is verified before anything is touched, and refused if it is from another
cluster: if the UID of this cluster's kube-system namespace is not in it. It is also refused
if that cannot be checked: no member that answers has that UID, and another one does not
answer. --foreign restores it anyway. Once started, the restore is not interrupted; if
it fails, run the same command again, with --foreign if no member answers.

Exit codes: 0 done, 2 refused (nothing was touched), 3 failed.`, backup.Bump),
		Example: `  holdfast snapshot restore before.db
  holdfast snapshot restore before.db --name demo -o json`,
		Args: arguments("FILE"),
	}
	cmd.Flags().BoolVar(&foreign, "foreign", false, "restore the snapshot even if it is from another cluster, or from an unknown one")
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := filepath.Abs(args[0])
		if err == nil {
			_, err = backup.Verify(file)
		}
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("failed to restore %s: %w", args[0], err))
		}
		return change(cmd, open, output, keeper.ChangeRequest{Restore: file, Foreign: foreign}, "cluster %s is restored from "+strings.ReplaceAll(args[0], "%", "%%"))
	}
	return cmd
}
