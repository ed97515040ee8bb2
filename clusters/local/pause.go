package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.Pauser = (*node)(nil)

// Pause implements framework.Pauser. It stops every process of the machine, including its first
// one and its agent. This process continues them; if it exits, so does the machine.
func (n *node) Pause(_ context.Context, ttl time.Duration) error { return n.machine.pause(ttl) }

// Resume implements framework.Pauser.
func (n *node) Resume(context.Context) error { return n.machine.resume() }

// Paused implements framework.Pauser.
func (n *node) Paused(context.Context) (bool, error) {
	return n.machine.paused(), nil
}

func (m *machine) paused() bool {
	l := m.life.Load()
	return l != nil && l.still.Load() != nil
}

// standstill contains the stopped processes of a paused machine.
type standstill struct{ stopped []procfs.Process }

// pause stops the machine's processes, for ttl at most.
func (m *machine) pause(ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.life.Load()
	switch {
	case ttl <= 0:
		return agenthttp.NothingDone("it needs a time to live above zero")
	case !m.powered():
		return agenthttp.NothingDone(fmt.Sprintf("machine %s is off", m.name))
	case l.still.Load() != nil:
		return agenthttp.NothingDone(fmt.Sprintf("machine %s is already paused", m.name))
	}
	stopped, err := stopTree("/proc", l.first.Pid)
	if err != nil {
		return fmt.Errorf("failed to pause machine %s: %w", m.name, errors.Join(err, continueAll(stopped)))
	}
	s := &standstill{stopped: stopped}
	l.still.Store(s)
	l.pause.Start(&m.mu, s, ttl, l.goOn)
	return nil
}

// resume continues the machine; it does nothing if it is not paused.
func (m *machine) resume() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.paused() {
		return nil
	}
	if err := m.life.Load().goOn(); err != nil {
		return fmt.Errorf("failed to resume machine %s: %w", m.name, err)
	}
	return nil
}

// goOn ends a standstill, with the machine's mu held.
func (l *life) goOn() error {
	s := l.still.Load()
	if err := continueAll(s.stopped); err != nil {
		return err
	}
	l.pause.Stop(s)
	l.still.Store(nil)
	return nil
}

// stopTree stops a process and all its descendants, and returns them; also after an error. It
// skips those that are stopped already: another fault stopped them.
func stopTree(proc string, root int) (stopped []procfs.Process, err error) {
	type start struct {
		pid   int
		ticks uint64
	}
	told := map[start]bool{}
	// A stopped process cannot start another one. So none is left when a search finds no new
	// one.
	for found := true; found; {
		found = false
		all, err := tree(proc, root)
		if err != nil {
			return stopped, err
		}
		for _, p := range all {
			if told[start{p.PID, p.StartTicks}] || p.State == "T" || p.Ended() {
				continue
			}
			switch err := p.Signal(syscall.SIGSTOP); {
			case errors.Is(err, os.ErrProcessDone):
				continue
			case err != nil:
				return stopped, err
			}
			told[start{p.PID, p.StartTicks}], found = true, true
			stopped = append(stopped, p)
		}
	}
	return stopped, nil
}

// continueAll continues the processes of stopTree that still exist.
func continueAll(stopped []procfs.Process) error {
	var errs []error
	for _, p := range stopped {
		if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// tree returns a process and its descendants, parents first. An orphan in a PID namespace
// becomes a child of the first process there.
func tree(proc string, root int) ([]procfs.Process, error) {
	names, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	children := map[int][]procfs.Process{}
	var all []procfs.Process
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		stat, err := procfs.ReadStat(proc, pid)
		if err != nil {
			continue // it has exited
		}
		p := procfs.Process{Proc: proc, PID: pid, Stat: stat}
		if pid == root {
			all = append(all, p)
		}
		children[stat.Parent] = append(children[stat.Parent], p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("process %d: %w", root, os.ErrProcessDone)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].PID]...)
	}
	return all, nil
}
