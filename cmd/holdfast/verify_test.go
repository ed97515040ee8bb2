package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestBundleError: only what is wrong with a bundle makes it invalid.
func TestBundleError(t *testing.T) {
	const file = "bundle.tar"
	unpacking := func(err error) error {
		return fmt.Errorf("record: %w", &fs.PathError{Op: "write", Path: "/tmp/x/record", Err: err})
	}
	for _, tc := range []struct {
		err  error
		want int
	}{
		{errors.New("a signature does not hold"), exitFail},
		{fmt.Errorf("%w: %w", run.ErrNoResults, fs.ErrNotExist), exitFail},
		{certify.ErrOtherRules, exitUsage},
		{&fs.PathError{Op: "open", Path: file, Err: syscall.ENOENT}, exitUsage},
		{unpacking(syscall.ENOENT), exitInconclusive},
		{unpacking(syscall.EACCES), exitInconclusive},
		{unpacking(syscall.ENOSPC), exitInconclusive},
		{unpacking(syscall.EDQUOT), exitInconclusive},
		{unpacking(syscall.EROFS), exitInconclusive},
		{unpacking(syscall.EIO), exitInconclusive},
		{unpacking(syscall.EMFILE), exitInconclusive},
		{unpacking(syscall.ENFILE), exitInconclusive},
	} {
		if got := exitCode(bundleError(file, tc.err)); got != tc.want {
			t.Errorf("%v: exit code %d, want %d", tc.err, got, tc.want)
		}
	}
}
