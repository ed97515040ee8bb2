// Package procfs reads what the kernel tells about processes in a /proc: that of
// this process or, by its path, that of another PID namespace.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ClockTick is the unit of times in /proc/PID/stat (USER_HZ, 100 a second on
// every architecture that Go runs on).
const ClockTick = 10 * time.Millisecond

// Stat is what /proc/PID/stat tells about a process.
type Stat struct {
	State      string // the letter of its first thread: R, S, D, T, Z
	Parent     int
	CPU        time.Duration // in user and in kernel mode
	Threads    uint64        // those that have not ended, and the first one
	StartTicks uint64        // since the boot of the kernel
}

// Ended reports whether the process has ended, and at most waits to be reaped. While other
// threads end after the first one, it still has its files and sockets.
func (s Stat) Ended() bool { return s.State == "X" || s.State == "Z" && s.Threads <= 1 }

// ReadStat reads the state of a process from a /proc.
func ReadStat(proc string, pid int) (Stat, error) {
	file := filepath.Join(proc, strconv.Itoa(pid), "stat")
	b, err := os.ReadFile(file)
	if err != nil {
		return Stat{}, err
	}
	// The command stands in parentheses and may hold anything but a newline.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("%s has %d fields after the command", file, len(f))
	}
	st := Stat{State: f[0]}
	var user, system uint64
	for field, value := range map[int]*uint64{11: &user, 12: &system, 17: &st.Threads, 19: &st.StartTicks} {
		if *value, err = strconv.ParseUint(f[field], 10, 64); err != nil {
			return Stat{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	if st.Parent, err = strconv.Atoi(f[1]); err != nil {
		return Stat{}, fmt.Errorf("%s: %w", file, err)
	}
	st.CPU = time.Duration(user+system) * ClockTick
	return st, nil
}

// Find returns the processes of a /proc whose arguments suit. A process that
// has ended and waits to be reaped has none.
func Find(proc string, suit func(args []string) bool) ([]int, error) {
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
		if args := Arguments(proc, pid); len(args) > 0 && suit(args) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Arguments returns the arguments of a process, argv[0] first; none where it has
// ended or is a thread of the kernel.
func Arguments(proc string, pid int) []string {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Started returns the wall time at which a process with these start ticks began.
func Started(ticks uint64) (time.Time, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	up, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("/proc/uptime: %w", err)
	}
	return time.Now().Add(time.Duration(ticks)*ClockTick - time.Duration(seconds*float64(time.Second))), nil
}

// ExitWords says how a process ended, as os.ProcessState does.
func ExitWords(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "signal: " + ws.Signal().String()
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// ChildWhere returns the child of parent whose numbers in the PID namespaces
// that it is in, the outermost first, suit.
func ChildWhere(parent int, suit func(pids []int) bool) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, f := range dirs {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		ppid, pids := 0, []int(nil)
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(line, ":")
			switch key {
			case "PPid":
				ppid, _ = strconv.Atoi(strings.TrimSpace(value))
			case "NSpid":
				for _, s := range strings.Fields(value) {
					n, _ := strconv.Atoi(s)
					pids = append(pids, n)
				}
			}
		}
		if ppid == parent && suit(pids) {
			return pids[0], nil
		}
	}
	return 0, fmt.Errorf("process %d has no such child", parent)
}
