package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// temporary is the file in which the new content of a file is written. A kubelet ignores it, as
// its name begins with a dot.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+temporarySuffix)
}

const temporarySuffix = ".holdfast"

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
	tmp := temporary(path)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = likeFile(f, info)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
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
			return fmt.Errorf("keeping the owner: %w", err)
		}
	}
	if err := f.Chmod(like.Mode().Perm()); err != nil {
		return fmt.Errorf("keeping the mode: %w", err)
	}
	return nil
}
