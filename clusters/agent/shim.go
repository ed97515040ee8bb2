package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// shim is the parent of a component's process. It starts the processes of one pod sandbox and
// reports their exits to the container runtime. While it is stopped (SIGSTOP) it does neither.
type shim struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"` // distinguishes it from a later process with the same PID
}

// none reports that no shim is known.
func (s shim) none() bool { return s == shim{} }

func (s shim) process() procfs.Process {
	return procfs.Process{Proc: "/proc", PID: s.PID, Stat: procfs.Stat{StartTicks: s.StartTicks}}
}

// over reports whether the shim has exited, and its sandbox with it.
func (s shim) over() bool { return s.process().Over() }

// stopped reports whether the shim is fully stopped: none of its threads runs. The state of the
// process itself is that of one thread, and others may still work.
func (s shim) stopped() bool {
	dir := filepath.Join("/proc", strconv.Itoa(s.PID), "task")
	threads, err := os.ReadDir(dir)
	if err != nil || s.over() {
		return true
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if st, err := procfs.ReadStat(dir, tid); err == nil && st.State != "T" && !st.Ended() {
			return false
		}
	}
	return true
}

// stop stops the shim and returns when it is fully stopped; a shim that has exited is left
// alone.
func (s shim) stop(ctx context.Context) error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for !s.stopped() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("its shim, process %d, does not stop: %w", s.PID, context.Cause(ctx))
		}
	}
	return nil
}

// letGo lets the shim continue; it has no effect on one that was not stopped or has exited.
func (s shim) letGo() error { return s.signal(syscall.SIGCONT) }

func (s shim) signal(sig syscall.Signal) error {
	if err := s.process().Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("its shim: %w", err)
	}
	return nil
}

// shimOf returns the parent of a process if it is named like a shim.
func shimOf(parent int, command string) (s shim, ok bool) {
	st, err := procfs.ReadStat("/proc", parent)
	args := procfs.Arguments("/proc", parent)
	if err != nil || len(args) == 0 || filepath.Base(args[0]) != command {
		return shim{}, false
	}
	return shim{PID: parent, StartTicks: st.StartTicks}, true
}

// letGoStrangers lets shims continue that are stopped but not recorded: from an agent whose
// state was lost.
func (a *agent) letGoStrangers() {
	commands, noted := map[string]bool{}, map[shim]bool{}
	for _, c := range a.config.Components {
		if c.Parent != "" {
			commands[c.Parent] = true
		}
	}
	if len(commands) == 0 {
		return
	}
	a.store.read(func(st *state) {
		for _, c := range st.Components {
			for _, s := range c.Stopped {
				noted[s] = true
			}
		}
	})
	pids, err := procfs.Find("/proc", func(args []string) bool { return commands[filepath.Base(args[0])] })
	if err != nil {
		complain(fmt.Errorf("failed to look for shims that are stopped: %w", err))
	}
	for _, pid := range pids {
		st, err := procfs.ReadStat("/proc", pid)
		s := shim{PID: pid, StartTicks: st.StartTicks}
		if err != nil || st.State != "T" || noted[s] {
			continue
		}
		if err := s.letGo(); err != nil {
			complain(err)
		}
	}
}
