// Package etcddata changes the data of an etcd member that does not run, as when an
// administrator repairs a cluster.
package etcddata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Replace replaces a member's data by those in from, a directory on the same file system, and deletes
// from. Without from the member has none. The old data stay until the new ones can take their place: a
// member that is started without any, since the process that replaces them was killed, may form a
// cluster on its own. What else is in the data directory stays.
func Replace(data, from string) error {
	if from == "" {
		from = filepath.Join(data, Member)
	} else if err := swap(data, from); err != nil {
		return fmt.Errorf("failed to replace the member's data: %w", err)
	}
	if err := system.Sync(data); err != nil {
		return fmt.Errorf("failed to replace the member's data: %w", err)
	}
	return os.RemoveAll(from)
}

// swap exchanges the member's data, if there are any, for those in from. If it fails, both are where
// they were. A process that is killed in between leaves one of them in place, unless the file
// system cannot exchange directories, as FUSE's often cannot.
func swap(data, from string) error {
	place, with := filepath.Join(data, Member), filepath.Join(from, Member)
	err := unix.Renameat2(unix.AT_FDCWD, with, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(with, place)
	case !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	old := filepath.Join(from, "replaced")
	err = os.Rename(place, old)
	had := err == nil
	if !had && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err = os.Rename(with, place); err != nil && had {
		err = errors.Join(err, os.Rename(old, place))
	}
	return err
}

// Others is the prefix of the names of what faults put into a data directory: each fault ends with
// its own.
const Others = ".holdfast-"

// Member is the directory inside a data directory that holds all of it.
const Member = "member"
