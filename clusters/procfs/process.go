package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one process, distinguished from a later one with the same PID by its start time.
type Process struct {
	// Proc is a /proc, and PID the number of the process in it.
	Proc string
	PID  int
	// Stat is the state of the process when it was read.
	Stat
}

// Over reports whether the process has exited.
func (p Process) Over() bool {
	st, err := ReadStat(p.Proc, p.PID)
	return err != nil || st.StartTicks != p.StartTicks || st.Ended()
}

// Signal sends a signal to this very process, and never to one that has reused its PID;
// os.ErrProcessDone if it has exited.
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
	// A directory of /proc identifies its process, like a pidfd.
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
