// Package scratch makes directories for files that must not outlive the process that needs them,
// such as snapshots of etcd, which hold every Secret.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir makes a directory that only this user can access, in the system's directory for temporary
// files, and returns a function that removes it. A directory of the same prefix whose process was
// killed first is removed by the next call.
func Dir(prefix string) (dir string, remove func() error, err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, old := range left {
		removeLeft(old)
	}
	for range 10 {
		if dir, err = os.MkdirTemp("", prefix); err != nil {
			return "", nil, err
		}
		var lock *os.File
		switch lock, err = Hold(dir); {
		case err == nil:
			return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
		case !errors.Is(err, ErrTaken):
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return "", nil, err
}

// ErrTaken is the error for a directory that another process holds, or has removed.
var ErrTaken = errors.New("another process has taken the directory")

// Hold locks a directory until the file is closed, at the latest with the process. It does not wait,
// and returns ErrTaken if another process holds the directory.
func Hold(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrTaken
	} else if err != nil {
		return nil, err
	}
	switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrTaken
	case err != nil:
		err = fmt.Errorf("failed to lock %s: %w", dir, err)
	case !HasPath(f, dir):
		err = ErrTaken
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// HasPath reports whether an open file still has its path. A lock on a file that its last owner has removed
// excludes no other process: release it, and lock the new file.
func HasPath(f interface{ Stat() (fs.FileInfo, error) }, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, theirs)
}

// removeLeft removes a directory of this user that no process holds. It is tried again next time if
// that fails.
func removeLeft(dir string) {
	lock, err := Hold(dir)
	if err != nil {
		return
	}
	defer lock.Close()
	info, err := lock.Stat()
	if err != nil {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Geteuid() {
		_ = os.RemoveAll(dir)
	}
}
