package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeLoad is a load process; it takes what was asked for from its start on.
type fakeLoad struct {
	framework.Pressure
	pid   int
	began time.Time
}

// crash kills a component as a crash loop does.
func (n *fakeNode) crash(c framework.Component) {
	p := n.processes[c]
	p.PID, p.StartTicks, p.State, p.LastExit = 0, 0, "", killedExit
	n.c.later(watcherPause, func() { n.spawn(c) })
}

// crashLater kills a process that has just started, if it is in a crash loop.
func (n *fakeNode) crashLater(c framework.Component) {
	p := n.processes[c]
	if !p.CrashLooped {
		return
	}
	pid := p.PID
	n.c.later(p.crashAfter, func() {
		if p.CrashLooped && p.PID == pid {
			n.crash(c)
		}
	})
}

func (n *fakeNode) CrashLoop(_ context.Context, c framework.Component, after, ttl time.Duration) error {
	defer n.lock()()
	if n.processes[c].CrashLooped {
		return framework.ErrNothingDone
	}
	if n.c.ask() {
		p := n.processes[c]
		p.CrashLooped, p.crashAfter = true, after
		n.crash(c)
		n.c.later(ttl, func() { p.CrashLooped = false })
	}
	return n.c.refuses
}

func (n *fakeNode) EndCrashLoop(_ context.Context, c framework.Component) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		n.processes[c].CrashLooped = false
		if !n.processes[c].Held {
			n.spawn(c)
		}
	}
	return nil
}

func (n *fakeNode) Press(_ context.Context, p framework.Pressure, ttl time.Duration) (string, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.pids++
	handle := fmt.Sprintf("%s-%d", n.name, n.pids)
	if n.c.ask() && n.c.refuses == nil {
		if n.loads == nil {
			n.loads = map[string]*fakeLoad{}
		}
		n.loads[handle] = &fakeLoad{Pressure: p, pid: n.pids, began: time.Now()}
		n.c.later(ttl, func() { delete(n.loads, handle) })
	}
	return handle, n.c.refuses
}

func (n *fakeNode) Relieve(_ context.Context, handle string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !strings.HasPrefix(handle, n.name) {
		return errors.New("that load is on another node")
	}
	if !n.c.stubborn {
		delete(n.loads, handle)
	}
	return nil
}

func (n *fakeNode) Load(_ context.Context, handle string) (framework.Load, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	l, ok := n.loads[handle]
	if !ok {
		return framework.Load{}, nil
	}
	loops := l.Loops
	if loops == framework.EveryProcessor {
		loops = 2
	}
	return framework.Load{PID: l.pid, CPUTime: time.Duration(loops) * time.Since(l.began), Anonymous: l.Memory, OOMScoreAdj: 1000}, nil
}

// fakeLimit is a limit; it throttles and is hit for as long as a load is within it.
type fakeLimit struct{ framework.Limit }

func (n *fakeNode) LimitSupport(framework.Limit) error { return n.c.noLimits }

func (n *fakeNode) Limit(_ context.Context, _ []framework.Component, l framework.Limit, ttl time.Duration) (string, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.pids++
	handle := fmt.Sprintf("%s-%d", n.name, n.pids)
	if n.c.ask() && n.c.refuses == nil {
		if n.limits == nil {
			n.limits = map[string]fakeLimit{}
		}
		n.limits[handle] = fakeLimit{l}
		n.c.later(ttl, func() { delete(n.limits, handle) })
	}
	return handle, n.c.refuses
}

func (n *fakeNode) Unlimit(_ context.Context, handle string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		delete(n.limits, handle)
	}
	return nil
}

func (n *fakeNode) ReadLimit(_ context.Context, handle string) (framework.LimitReading, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	l, ok := n.limits[handle]
	if !ok {
		return framework.LimitReading{}, nil
	}
	r := framework.LimitReading{Active: true, Group: "/groups/" + handle, Inside: 3, CPU: l.CPU, Memory: l.Memory}
	for _, load := range n.loads {
		if load.Within == handle && !n.c.lax {
			r.Periods = uint64(time.Since(load.began) / (100 * time.Millisecond))
			r.Throttled, r.MemoryHits = r.Periods, r.Periods
		}
	}
	if n.c.astrayProcess {
		r.Inside, r.Outside = 2, []int{17}
	}
	return r, nil
}
