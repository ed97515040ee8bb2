package local

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// agentLimit is how long a node agent may take for an answer. It takes less
// than a millisecond, unless it is frozen.
const agentLimit = 5 * time.Second

// processes has the abilities of framework on components. Those of a machine
// are its agent's to act on; the agent itself is acted on from outside.
type processes struct {
	// on returns the machine of a component, nil if none exists.
	on func(framework.Component) *machine
	of string // whose they are, for errors
}

// processesOf has the abilities on all that a node's machine runs.
func processesOf(m *machine) processes {
	return processes{of: "node " + m.name, on: func(c framework.Component) *machine {
		if c == framework.NodeAgent || m.isMeantToRun(c) {
			return m
		}
		return nil
	}}
}

func (p processes) machine(c framework.Component) (*machine, error) {
	m := p.on(c)
	if m == nil {
		return nil, fmt.Errorf("%s runs no %s", p.of, c)
	}
	return m, nil
}

// do acts on a component through its agent, or with outside on the agent.
func (p processes) do(ctx context.Context, verb string, req agentRequest, outside func(*watcher) error) error {
	m, err := p.machine(req.Component)
	if err != nil {
		return err
	}
	if req.Component == framework.NodeAgent {
		if err := outside(&m.watcher); err != nil {
			return fmt.Errorf("%s of the node agent on %s: %w", verb, m.name, err)
		}
		return nil
	}
	if !m.powered() {
		return agenthttp.NothingDone(fmt.Sprintf("%s of %s: %s is powered off", verb, req.Component, m.name))
	}
	return m.agent.do(ctx, verb, req)
}

// undo is do for what ends a fault: of those on processes none survives a loss
// of power.
func (p processes) undo(ctx context.Context, verb string, c framework.Component, outside func(*watcher) error) error {
	if m, err := p.machine(c); err != nil {
		return err
	} else if !m.powered() {
		return nil
	}
	return p.do(ctx, verb, agentRequest{Component: c}, outside)
}

// Process implements framework.ProcessReporter.
func (p processes) Process(ctx context.Context, c framework.Component) (framework.Process, error) {
	m, err := p.machine(c)
	if err != nil {
		return framework.Process{}, err
	}
	if c == framework.NodeAgent {
		return m.watcher.process()
	}
	return m.process(ctx, c)
}

// process asks the agent for one component.
func (m *machine) process(ctx context.Context, c framework.Component) (framework.Process, error) {
	l := m.life.Load()
	if l == nil || !l.up.Load() {
		return framework.Process{Component: c, LastExit: "powered off"}, nil
	}
	ctx, cancel := agenthttp.Within(ctx, agentLimit)
	defer cancel()
	all, err := m.agent.processes(ctx)
	if err != nil {
		if m.life.Load() != l { // power was lost while the agent was asked
			return framework.Process{Component: c, LastExit: "powered off"}, nil
		}
		return framework.Process{}, err
	}
	i := slices.IndexFunc(all, func(p framework.Process) bool { return p.Component == c })
	if i < 0 {
		return framework.Process{}, fmt.Errorf("the agent of %s does not know %s", m.name, c)
	}
	return all[i], nil
}

// Kill implements framework.Killer.
func (p processes) Kill(ctx context.Context, c framework.Component, hold time.Duration) error {
	return p.do(ctx, "kill", agentRequest{Component: c, For: hold}, func(w *watcher) error { return w.end(ctx, syscall.SIGKILL, hold) })
}

// Stop implements framework.Stopper.
func (p processes) Stop(ctx context.Context, c framework.Component, hold time.Duration) error {
	return p.do(ctx, "stop", agentRequest{Component: c, For: hold}, func(w *watcher) error { return w.end(ctx, syscall.SIGTERM, hold) })
}

// Start implements framework.Starter.
func (p processes) Start(ctx context.Context, c framework.Component) error {
	return p.undo(ctx, "start", c, (*watcher).start)
}

// Freeze implements framework.Freezer.
func (p processes) Freeze(ctx context.Context, c framework.Component, ttl time.Duration) error {
	return p.do(ctx, "freeze", agentRequest{Component: c, For: ttl}, func(w *watcher) error { return w.freeze(ttl) })
}

// Thaw implements framework.Freezer.
func (p processes) Thaw(ctx context.Context, c framework.Component) error {
	return p.undo(ctx, "thaw", c, (*watcher).thaw)
}

// CrashLoop implements framework.CrashLooper.
func (p processes) CrashLoop(ctx context.Context, c framework.Component, after, ttl time.Duration) error {
	return p.do(ctx, "crash-loop", agentRequest{Component: c, After: after, For: ttl},
		func(w *watcher) error { return w.crashLoop(ctx, after, ttl) })
}

// EndCrashLoop implements framework.CrashLooper.
func (p processes) EndCrashLoop(ctx context.Context, c framework.Component) error {
	return p.undo(ctx, "end-crash-loop", c, (*watcher).endCrashLoop)
}

// isMeantToRun reports whether a component is among those of the machine.
func (m *machine) isMeantToRun(c framework.Component) bool {
	return slices.ContainsFunc(m.components(), func(s componentSpec) bool { return s.Name == c })
}
