// Package etcddata changes the data of an etcd member that does not run, as when an
// administrator repairs a cluster.
package etcddata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Replace empties a member's data directory, except for what faults have put there, and moves the
// content of from, a directory on the same file system, into it. Without from it stays empty. The old
// data stay until the new ones can take their place: a member that is started without any, since the
// process that replaces them was killed, may form a cluster on its own.
func Replace(data, from string) error {
	if from == "" {
		return wipe(data, "")
	}
	err := swap(data, from)
	if err == nil {
		err = system.Sync(data)
	}
	if err == nil {
		err = wipe(data, Member)
	}
	if err != nil {
		return fmt.Errorf("filling the member's data directory: %w", err)
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

// wipe deletes the content of a data directory, except for one name if that is not empty, and what
// belongs to other faults.
func wipe(data, except string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return fmt.Errorf("reading the member's data directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() == except || strings.HasPrefix(e.Name(), Others) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			return fmt.Errorf("wiping the member's data: %w", err)
		}
	}
	return nil
}

// Member is the directory inside a data directory that holds all of it.
const Member = "member"
