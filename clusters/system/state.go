package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// StateRoot returns the directory with one directory for each thing that outlives the command
// that created it. Its path is short, since it contains sockets.
func StateRoot() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "holdfast")
	}
	return filepath.Join("/tmp", "holdfast-"+strconv.Itoa(os.Geteuid()))
}

// MakeStateRoot creates the directory of StateRoot, accessible to this user only: a kubeconfig
// in it can name programs to run, and a socket in it can give root's rights.
func MakeStateRoot() error {
	root := StateRoot()
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("failed to make the directory for the state of clusters: %w", err)
	}
	st, err := os.Lstat(root)
	if err != nil {
		return fmt.Errorf("failed to inspect the directory for the state of clusters: %w", err)
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(owner.Uid) != os.Geteuid() || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s must be a directory that belongs to this user, with mode 0700, and is not; remove it, or set XDG_RUNTIME_DIR", root)
	}
	return nil
}
