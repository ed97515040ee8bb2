package run

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/reports"
)

// machine describes the machine for reports.
func machine() reports.Machine {
	m := reports.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit)
	}
	return m
}
