package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ClockTick is the unit of times in /proc/PID/stat (USER_HZ, 100 a second on
// every architecture that Go runs on).
const ClockTick = 10 * time.Millisecond

// Stat is what /proc/PID/stat tells about a process.
type Stat struct {
	State      string // its letter: R, S, D, T, Z
	Parent     int
	CPU        time.Duration // in user and in kernel mode
	StartTicks uint64        // since the boot of the kernel
}

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
	for field, value := range map[int]*uint64{11: &user, 12: &system, 19: &st.StartTicks} {
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

// Process is one process, told from a later one of its number by the time of
// its start.
type Process struct {
	// Proc is a /proc, and PID the number of the process in it.
	Proc string
	PID  int
	// Stat is how the process was when it was looked at.
	Stat
}

// Over tells whether the process has ended.
func (p Process) Over() bool {
	st, err := ReadStat(p.Proc, p.PID)
	return err != nil || st.StartTicks != p.StartTicks || st.State == "Z" || st.State == "X"
}

// Signal sends a signal to this very process, and never to one that has taken
// its number; os.ErrProcessDone where it has ended.
func (p Process) Signal(sig syscall.Signal) error {
	dir, err := os.Open(filepath.Join(p.Proc, strconv.Itoa(p.PID)))
	if err != nil {
		return os.ErrProcessDone
	}
	defer dir.Close()
	if p.Over() {
		return os.ErrProcessDone
	}
	control, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	// A directory of /proc stands for its process as a pidfd does.
	err = control.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	switch {
	case err != nil:
		return err
	case sent == unix.ESRCH:
		return os.ErrProcessDone
	case sent != nil:
		return fmt.Errorf("%s to process %d: %w", unix.SignalName(sig), p.PID, sent)
	}
	return nil
}
