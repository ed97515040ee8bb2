package local

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// agentLimit is how long a node agent may take to answer. It takes less than a millisecond,
// unless it is frozen.
const agentLimit = 5 * time.Second

// processes implements the framework's abilities on components. A machine's agent acts on its
// components; the agent itself is acted on from outside.
type processes struct {
	// on returns the machine of a component, nil if none exists.
	on func(framework.Component) *machine
	of string // their owner, for errors
}

// processesOf implements the abilities on all components of a node's machine.
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
		return nil, fmt.Errorf("%s does not run %s", p.of, c)
	}
	return m, nil
}

// do acts on a component through its agent, or with outside on the agent.
func (p processes) do(verb string, c framework.Component, inside func(*agent.Client) error, outside func(*watcher) error) error {
	m, err := p.machine(c)
	if err != nil {
		return err
	}
	if c == framework.NodeAgent {
		if err := outside(&m.watcher); err != nil {
			return fmt.Errorf("%s of the node agent on %s: %w", verb, m.name, err)
		}
		return nil
	}
	if !m.powered() {
		return agenthttp.NothingDone(fmt.Sprintf("%s of %s: %s is powered off", verb, c, m.name))
	}
	return inside(m.agent)
}

// undo is do for the end of a fault: no fault on processes survives a loss of power.
func (p processes) undo(verb string, c framework.Component, inside func(*agent.Client) error, outside func(*watcher) error) error {
	if m, err := p.machine(c); err != nil {
		return err
	} else if !m.powered() {
		return nil
	}
	return p.do(verb, c, inside, outside)
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

// process queries the agent for one component.
func (m *machine) process(ctx context.Context, c framework.Component) (framework.Process, error) {
	l := m.life.Load()
	if l == nil || !l.up.Load() {
		return framework.Process{Component: c, LastExit: "powered off"}, nil
	}
	ctx, cancel := agenthttp.Within(ctx, agentLimit)
	defer cancel()
	p, err := m.agent.Process(ctx, c)
	if err != nil && m.life.Load() != l { // power was lost during the request
		return framework.Process{Component: c, LastExit: "powered off"}, nil
	}
	return p, err
}

// Kill implements framework.Killer.
func (p processes) Kill(ctx context.Context, c framework.Component, hold time.Duration) error {
	return p.do("kill", c, func(a *agent.Client) error { return a.Kill(ctx, c, hold) },
		func(w *watcher) error { return w.end(ctx, syscall.SIGKILL, hold) })
}

// Stop implements framework.Stopper.
func (p processes) Stop(ctx context.Context, c framework.Component, hold time.Duration) error {
	return p.do("stop", c, func(a *agent.Client) error { return a.Stop(ctx, c, hold) },
		func(w *watcher) error { return w.end(ctx, syscall.SIGTERM, hold) })
}

// Start implements framework.Starter.
func (p processes) Start(ctx context.Context, c framework.Component) error {
	return p.undo("start", c, func(a *agent.Client) error { return a.Start(ctx, c) }, (*watcher).start)
}

// Freeze implements framework.Freezer.
func (p processes) Freeze(ctx context.Context, c framework.Component, ttl time.Duration) error {
	return p.do("freeze", c, func(a *agent.Client) error { return a.Freeze(ctx, c, ttl) }, func(w *watcher) error { return w.freeze(ttl) })
}

// Thaw implements framework.Freezer.
func (p processes) Thaw(ctx context.Context, c framework.Component) error {
	return p.undo("thaw", c, func(a *agent.Client) error { return a.Thaw(ctx, c) }, (*watcher).thaw)
}

// CrashLoop implements framework.CrashLooper.
func (p processes) CrashLoop(ctx context.Context, c framework.Component, after, ttl time.Duration) error {
	return p.do("crash-loop", c, func(a *agent.Client) error { return a.CrashLoop(ctx, c, after, ttl) },
		func(w *watcher) error { return w.crashLoop(ctx, after, ttl) })
}

// EndCrashLoop implements framework.CrashLooper.
func (p processes) EndCrashLoop(ctx context.Context, c framework.Component) error {
	return p.undo("end-crash-loop", c, func(a *agent.Client) error { return a.EndCrashLoop(ctx, c) }, (*watcher).endCrashLoop)
}

// isMeantToRun reports whether a component is among those of the machine.
func (m *machine) isMeantToRun(c framework.Component) bool {
	return slices.ContainsFunc(m.components(), func(own agent.Component) bool { return own.Name == c })
}
