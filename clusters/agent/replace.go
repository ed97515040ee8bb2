package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// replaceContent replaces the content of one of the node's own files, and keeps its mode and
// owner: the component that reads it may not be root. A reader finds the old content or the new
// one, also after the machine lost power. A symbolic link stays one.
func replaceContent(path string, b []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return system.ReplaceFile(path, b, 0o600, true, func(f *os.File) error { return likeFile(f, info) })
}

// likeFile gives a file the owner and mode of another one.
func likeFile(f *os.File, like os.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	own, want := now.Sys().(*syscall.Stat_t), like.Sys().(*syscall.Stat_t)
	if own.Uid != want.Uid || own.Gid != want.Gid {
		if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return fmt.Errorf("failed to preserve the owner: %w", err)
		}
	}
	if err := f.Chmod(like.Mode().Perm()); err != nil {
		return fmt.Errorf("failed to preserve the mode: %w", err)
	}
	return nil
}
