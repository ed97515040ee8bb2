package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// procStat reads a process's state letter and start time in clock ticks.
func procStat(pid int) (state string, startTicks uint64, err error) {
	st, err := system.ReadStat("/proc", pid)
	return st.State, st.StartTicks, err
}

// find returns the processes of a /proc whose arguments suit. A process that
// has ended and waits to be reaped has none.
func find(proc string, suit func(args []string) bool) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil || len(b) == 0 {
			continue // it has ended
		}
		if suit(strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// started returns the wall time at which a process with these start ticks began.
func started(ticks uint64) (time.Time, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	up, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("/proc/uptime: %w", err)
	}
	return time.Now().Add(time.Duration(ticks)*system.ClockTick - time.Duration(seconds*float64(time.Second))), nil
}
