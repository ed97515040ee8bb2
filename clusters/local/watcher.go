package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// watcher does to a machine's node agent, the watcher of its processes, what the agent cannot
// do to itself. It sees the agent in the machine's /proc and sends no requests to the machine,
// so that it works on a frozen agent. The machine's first process restarts the agent, except
// while a file holds it down.
type watcher struct {
	m *machine

	mu      sync.Mutex
	thawing expiry.Timers[string] // by the machine's name
	loop    context.Context       // of its crash loop; nil without one
	crash   context.CancelFunc    // cancels it
}

// agentHold is the file that holds the machine's agent down; see held.
func (m *machine) agentHold() string { return filepath.Join(m.run, "agent.hold") }

// held reports whether a file contains a future time, in nanoseconds since 1970.
func held(file string) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	until, err := strconv.ParseInt(string(b), 10, 64)
	return err == nil && time.Now().Before(time.Unix(0, until))
}

// proc returns the machine's own /proc, which shows only its processes.
func (m *machine) proc() (string, error) {
	pid := m.pid()
	if pid == 0 {
		return "", fmt.Errorf("%s is powered off", m.name)
	}
	return fmt.Sprintf("/proc/%d/root/proc", pid), nil
}

// machineProcess is a process of the machine, with its PID there.
type machineProcess struct{ procfs.Process }

// find returns the agent's process, one with pid 0 if none exists.
func (w *watcher) find() (machineProcess, error) {
	proc, err := w.m.proc()
	if err != nil {
		return machineProcess{}, err
	}
	pids, err := procfs.Find(proc, func(args []string) bool { return args[0] == roleAgent })
	if err != nil {
		return machineProcess{}, fmt.Errorf("failed to look for the node agent of %s: %w", w.m.name, err)
	}
	for _, pid := range pids {
		// A component that the agent is just starting still has its name.
		if st, err := procfs.ReadStat(proc, pid); err == nil && st.Parent == 1 && !st.Ended() {
			return machineProcess{procfs.Process{Proc: proc, PID: pid, Stat: st}}, nil
		}
	}
	return machineProcess{}, nil
}

// gone returns when the process has exited.
func (a machineProcess) gone(ctx context.Context) error {
	return await.Until(ctx, time.Millisecond, func(context.Context) error {
		if !a.Over() {
			return fmt.Errorf("process %d has not exited", a.PID)
		}
		return nil
	})
}

// process reports the state of the agent.
func (w *watcher) process() (framework.Process, error) {
	p := framework.Process{Component: framework.NodeAgent}
	if !w.m.powered() {
		p.LastExit = "powered off"
		return p, nil
	}
	a, err := w.find()
	if err != nil {
		if !w.m.powered() {
			p.LastExit = "powered off"
			return p, nil
		}
		return p, err
	}
	p.PID, p.StartTicks, p.State, p.Held = a.PID, a.StartTicks, a.State, held(w.m.agentHold())
	if a.PID != 0 {
		if p.Started, err = procfs.Started(a.StartTicks); err != nil {
			return p, err
		}
	}
	p.Restarts, p.LastExit = w.exits()
	if a.PID == 0 {
		p.Restarts = max(0, p.Restarts-1) // the last one that exited has no successor yet
	}
	w.mu.Lock()
	p.CrashLooped = w.loop != nil
	w.mu.Unlock()
	return p, nil
}

// exits counts the agents that have exited in this life of the machine, and returns how the
// last one did. The machine's first process records it.
func (w *watcher) exits() (n int, last string) {
	f, err := os.Open(w.m.config.Exits)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if how, ok := strings.CutPrefix(lines.Text(), agentExit+" "); ok {
			n, last = n+1, how
		}
	}
	return n, last
}

// end kills the agent and holds it down. Between two processes, it prevents the start of the
// next one.
func (w *watcher) end(ctx context.Context, sig syscall.Signal, hold time.Duration) error {
	a, err := w.find()
	switch {
	case err != nil:
		return err
	case a.PID == 0 && (hold <= 0 || held(w.m.agentHold())):
		return agent.ErrNotRunning
	}
	if hold > 0 {
		until := strconv.FormatInt(time.Now().Add(hold).UnixNano(), 10)
		if err := system.ReplaceFile(w.m.agentHold(), []byte(until), 0o600, false); err != nil {
			return fmt.Errorf("failed to record the hold: %w", err)
		}
		if a.PID == 0 { // it may have just been started
			if a, err = w.find(); err != nil || a.PID == 0 {
				return err
			}
		}
	}
	if err := a.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	graceful, cancel := context.WithTimeout(ctx, agent.StopGrace)
	defer cancel()
	if err := a.gone(graceful); err == nil || ctx.Err() != nil {
		return err
	}
	_ = a.Signal(syscall.SIGKILL)
	return a.gone(ctx)
}

// start ends a hold.
func (w *watcher) start() error {
	if err := os.Remove(w.m.agentHold()); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("failed to release the hold: %w", err)
	}
	return nil
}

func (w *watcher) freeze(ttl time.Duration) error {
	if ttl <= 0 {
		return agent.ErrNoTTL
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.find()
	switch {
	case err != nil:
		return err
	case a.PID == 0:
		return agent.ErrNotRunning
	case a.State == "T":
		return agent.ErrFrozen
	}
	w.thawIn(ttl, a)
	return a.Signal(syscall.SIGSTOP)
}

// thawIn thaws the agent later, with mu held: not while its machine is paused, in which nothing runs.
func (w *watcher) thawIn(d time.Duration, a machineProcess) {
	w.thawing.Start(&w.mu, w.m.name, d, func() error {
		if w.m.paused() {
			return fmt.Errorf("the node agent of %s stays frozen until the machine is resumed", w.m.name)
		}
		return a.goOn()
	})
}

func (w *watcher) thaw() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thawing.Stop(w.m.name)
	a, err := w.find()
	if err != nil || a.PID == 0 {
		return nil // without power, or without a process, nothing is frozen
	}
	if w.m.paused() {
		w.thawIn(expiry.Pause, a)
		return nil
	}
	return a.goOn()
}

// goOn continues the process, unless it has exited.
func (a machineProcess) goOn() error {
	if err := a.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// crashLoop kills the agent now and after each start, until ttl has passed.
func (w *watcher) crashLoop(ctx context.Context, after, ttl time.Duration) error {
	if ttl <= 0 {
		return agent.ErrNoTTL
	}
	w.mu.Lock()
	if w.loop != nil {
		w.mu.Unlock()
		return agent.ErrCrashLoop
	}
	loop, cancel := context.WithTimeout(context.Background(), ttl)
	w.loop, w.crash = loop, cancel
	w.mu.Unlock()
	if err := w.end(ctx, syscall.SIGKILL, 0); err != nil {
		return errors.Join(err, w.endCrashLoop())
	}
	go w.crashAgain(loop, after)
	return nil
}

// crashAgain is the crash loop after the first kill.
func (w *watcher) crashAgain(ctx context.Context, after time.Duration) {
	var doomed machineProcess
	var at time.Time
	_ = await.Until(ctx, 5*time.Millisecond, func(context.Context) error {
		a, err := w.find()
		switch {
		case err != nil || a.PID == 0:
		case a.PID != doomed.PID || a.StartTicks != doomed.StartTicks:
			doomed, at = a, time.Now().Add(after)
		case !time.Now().Before(at):
			_ = a.Signal(syscall.SIGKILL)
		}
		return agent.ErrCrashLoop // only ctx ends it
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loop == ctx {
		w.crash()
		w.loop = nil
	}
}

func (w *watcher) endCrashLoop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loop != nil {
		w.crash()
		w.loop = nil
	}
	return nil
}

// stop forgets active faults: the machine has lost power.
func (w *watcher) stop() {
	_ = w.endCrashLoop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thawing.StopAll()
}
