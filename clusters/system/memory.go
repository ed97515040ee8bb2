package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// AvailableMemory returns the kernel's estimate of the machine's available memory, in bytes.
func AvailableMemory() (uint64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}

// FreeMemory returns how much memory, in bytes, this process may use without swapping.
func FreeMemory() (uint64, error) {
	available, err := AvailableMemory()
	if limit, ok := cgroupMemory(); ok {
		available = min(available, limit)
	}
	return available, err
}

// cgroupMemory is what the control group of a container leaves.
func cgroupMemory() (uint64, bool) {
	read := func(name string) (n uint64, ok bool) {
		data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name))
		if err != nil {
			return 0, false
		}
		_, err = fmt.Sscan(string(data), &n)
		return n, err == nil
	}
	limit, ok := read("memory.max")
	used, okUsed := read("memory.current")
	if !ok || !okUsed || used > limit {
		return 0, false
	}
	return limit - used, true
}
