package system

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrnoName returns ENOSPC for ENOSPC, and the text of other errors than the kernel's.
func ErrnoName(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok && unix.ErrnoName(e) != "" {
		return unix.ErrnoName(e)
	}
	return err.Error()
}
