package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat (USER_HZ, 100 a second on
// every architecture that Go runs on).
const clockTick = 10 * time.Millisecond

// processStat is what /proc/PID/stat tells about a process.
type processStat struct {
	state      string // its letter: R, S, D, T, Z
	parent     int
	cpu        time.Duration // in user and in kernel mode
	startTicks uint64        // since the boot of the kernel
}

// readStat reads the state of a process from a /proc.
func readStat(proc string, pid int) (processStat, error) {
	file := filepath.Join(proc, strconv.Itoa(pid), "stat")
	b, err := os.ReadFile(file)
	if err != nil {
		return processStat{}, err
	}
	// The command stands in parentheses and may hold anything but a newline.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return processStat{}, fmt.Errorf("%s has %d fields after the command", file, len(f))
	}
	st := processStat{state: f[0]}
	var user, system uint64
	for field, value := range map[int]*uint64{11: &user, 12: &system, 19: &st.startTicks} {
		if *value, err = strconv.ParseUint(f[field], 10, 64); err != nil {
			return processStat{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	if st.parent, err = strconv.Atoi(f[1]); err != nil {
		return processStat{}, fmt.Errorf("%s: %w", file, err)
	}
	st.cpu = time.Duration(user+system) * clockTick
	return st, nil
}

// procStat reads a process's state letter and start time in clock ticks.
func procStat(pid int) (state string, startTicks uint64, err error) {
	st, err := readStat("/proc", pid)
	return st.state, st.startTicks, err
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
	return time.Now().Add(time.Duration(ticks)*clockTick - time.Duration(seconds*float64(time.Second))), nil
}
