// Package procfs reads the kernel's information about processes from a /proc: that of this
// process or, by its path, that of another PID namespace.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ClockTick is the unit of times in /proc/PID/stat (USER_HZ, 100 a second on
// every architecture that Go runs on).
const ClockTick = 10 * time.Millisecond

// Stat is the content of a process's /proc/PID/stat.
type Stat struct {
	State      string // the letter of its first thread: R, S, D, T, Z
	Parent     int
	CPU        time.Duration // in user and in kernel mode
	Threads    uint64        // that have not exited, and the first one
	StartTicks uint64        // since the boot of the kernel
}

// Ended reports whether the process has exited, and at most waits to be reaped. While other
// threads exit after the first one, it still has its files and sockets.
func (s Stat) Ended() bool { return s.State == "X" || s.State == "Z" && s.Threads <= 1 }

// ReadStat reads the state of a process from a /proc.
func ReadStat(proc string, pid int) (Stat, error) {
	file := filepath.Join(proc, strconv.Itoa(pid), "stat")
	b, err := os.ReadFile(file)
	if err != nil {
		return Stat{}, err
	}
	// The command is in parentheses and may contain anything but a newline.
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

// Find returns the processes of a /proc whose arguments match. A process that has exited and
// waits to be reaped has none.
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

// Arguments returns the arguments of a process, argv[0] first; none if it has exited or is a
// kernel thread.
func Arguments(proc string, pid int) []string {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// podGroup matches the element of a pod in the path of a control group: with the cgroup driver
// cgroupfs its name, and with systemd the end of the name of a slice, with _ for - (GetPodCgroupNameSuffix
// and ToSystemd in pkg/kubelet/cm of Kubernetes).
var podGroup = regexp.MustCompile(`[/-]pod([0-9a-f]{32}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)`)

// ScheduledPod returns the UID of the pod that a process runs in, from paths in its
// /proc/PID/cgroup; empty if it runs in none, or in a static pod. The API server gives pods a UUID, and
// the kubelet gives a static pod without a UID in its manifest a hash (applyDefaults in
// pkg/kubelet/config of Kubernetes). Of pods inside one another the innermost counts: nodes may be pods.
func ScheduledPod(cgroup string) (uid string) {
	for line := range strings.Lines(cgroup) {
		if all := podGroup.FindAllStringSubmatch(strings.TrimSpace(line), -1); len(all) > 0 {
			uid = strings.ReplaceAll(all[len(all)-1][1], "_", "-")
		}
	}
	if !strings.Contains(uid, "-") {
		return ""
	}
	return uid
}

// Started returns the wall time of a process's start from its start ticks.
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

// ExitWords describes how a process exited, like os.ProcessState.
func ExitWords(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "signal: " + ws.Signal().String()
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// ChildWhere returns the child of parent whose PIDs in its PID namespaces, the outermost first,
// match.
func ChildWhere(parent int, suit func(pids []int) bool) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, f := range dirs {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has exited
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
