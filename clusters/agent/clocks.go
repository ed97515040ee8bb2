package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/framework"
)

// clocks moves the clocks of the components that the agent starts.
type clocks struct {
	a *agent

	mu     sync.Mutex            // held through every change of a clock, and every start
	timers expiry.Timers[string] // guarded by mu; by handle
}

// shiftState is an active shift.
type shiftState struct {
	Components []framework.Component `json:"components"`
	Shift      clock.Shift           `json:"shift"`
	Until      time.Time             `json:"until"`
}

// resume takes over what an earlier agent left; after a restart of the node nothing is left.
func (c *clocks) resume(restarted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if restarted {
		c.a.store.note(func(st *state) { clear(st.Shifts); st.Shifted = false })
	}
	for handle, s := range c.shifts() {
		c.timers.Start(&c.mu, handle, time.Until(s.Until), func() error { return c.end(handle) })
	}
}

func (c *clocks) shifts() (all map[string]shiftState) {
	c.a.store.read(func(st *state) { all = maps.Clone(st.Shifts) })
	return all
}

// shifted reports whether a component may have a different clock from the machine.
func (c *clocks) shifted() (yes bool) {
	c.a.store.read(func(st *state) { yes = st.Shifted })
	return yes
}

// shift moves the clocks of components, both those that run and those that start later.
func (c *clocks) shift(ctx context.Context, req request) (handle string, err error) {
	if req.For <= 0 {
		return "", ErrNoTTL
	}
	for _, name := range req.Components {
		if w := c.a.watchers[name]; w == nil {
			return "", noComponent(name)
		} else if w.spec.Exec == nil {
			return "", agenthttp.Unsupported(fmt.Sprintf("the clock of %s cannot be moved: the node agent did not start this component", name))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := shiftState{Components: req.Components, Until: now.Add(req.For),
		Shift: clock.Shift{Offset: req.Shift.Offset, Drift: req.Shift.Drift, Base: now.Round(0)}}
	// Never reused, also not by an agent that does not know of this one.
	handle = strconv.FormatInt(now.UnixNano(), 36)
	err = c.a.store.update(func(st *state) {
		st.Shifts[handle], st.Shifted = s, true
	})
	if err == nil {
		err = c.settleAll(s.Components)
	}
	if err == nil {
		err = context.Cause(ctx) // the caller would not learn of it
	}
	if err != nil {
		c.a.store.note(func(st *state) { delete(st.Shifts, handle) })
		if backErr := c.settleAll(s.Components); backErr != nil { // a clock may have moved
			s.Until = now
			c.a.store.note(func(st *state) { st.Shifts[handle] = s })
			c.timers.Start(&c.mu, handle, retryPause, func() error { return c.end(handle) })
			err = errors.Join(err, backErr)
		}
		return "", err
	}
	c.timers.Start(&c.mu, handle, req.For, func() error { return c.end(handle) })
	return handle, nil
}

// unshift ends a shift; it does nothing if the shift is gone.
func (c *clocks) unshift(handle string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end(handle)
}

// end is unshift with mu held.
func (c *clocks) end(handle string) error {
	s, ok := c.shifts()[handle]
	if !ok {
		return nil
	}
	c.a.store.note(func(st *state) { delete(st.Shifts, handle) })
	if err := c.settleAll(s.Components); err != nil {
		c.a.store.note(func(st *state) { st.Shifts[handle] = s })
		return fmt.Errorf("failed to undo the clock shift %s: %w", handle, err)
	}
	c.timers.Stop(handle)
	return nil
}

// of returns the clock that a component should have. The caller holds the lock.
func (c *clocks) of(name framework.Component) (sum clock.Shift, handles []string) {
	all := c.shifts()
	var shifts []clock.Shift
	for _, handle := range slices.Sorted(maps.Keys(all)) {
		if s := all[handle]; slices.Contains(s.Components, name) {
			shifts = append(shifts, s.Shift)
			handles = append(handles, handle)
		}
	}
	return clock.Sum(shifts...), handles
}

// settleAll sets the clocks of the running components to what they should be. The caller holds
// the lock.
func (c *clocks) settleAll(names []framework.Component) error {
	var errs []error
	for _, name := range names {
		p := c.a.watchers[name].current()
		if p == nil {
			continue // its clock is set when it starts
		}
		want, _ := c.of(name)
		err := clock.Apply(p.pid, want)
		if err != nil && !endsSoon(p.gone) {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// endsSoon reports whether a process is exiting. Its watcher notices only after the exit, which
// takes a moment.
func endsSoon(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// start starts a component with the clock that it should have. The caller holds the lock.
func (c *clocks) start(name framework.Component, cmd *exec.Cmd) error {
	want, _ := c.of(name)
	if want.IsZero() {
		return cmd.Start()
	}
	err := clock.Start(cmd, want)
	if errors.Is(err, clock.ErrNotShifted) {
		// The component runs, and settle tries again.
		complain(fmt.Errorf("%s: %w", name, err))
		return nil
	}
	return err
}

// settle catches up on changes made while a component was being started, or while no agent ran.
func (c *clocks) settle(name framework.Component, pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shifted() {
		return
	}
	want, _ := c.of(name)
	if err := clock.Apply(pid, want); err != nil {
		complain(fmt.Errorf("%s: %w", name, err))
	}
}

// read reports how the clock of a component is shifted.
func (c *clocks) read(name framework.Component) (r framework.ClockReading, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.a.watchers[name]
	if w == nil {
		return r, noComponent(name)
	}
	p := w.current()
	if p == nil {
		return r, ErrNotRunning
	}
	got, err := clock.Read(p.pid)
	if err != nil {
		return r, err
	}
	_, handles := c.of(name)
	return framework.ClockReading{Offset: got.At(time.Now()), Drift: got.Drift, Shifts: handles, Untouched: got.IsZero()}, nil
}

func (c *clocks) handle(mux *http.ServeMux) {
	answer(mux, "POST /clock", func(_ context.Context, r request) (any, error) { return c.read(r.Component) })
	answer(mux, "POST /shift", func(ctx context.Context, r request) (any, error) { return c.shift(ctx, r) })
	answer(mux, "POST /unshift", func(_ context.Context, r request) (any, error) { return nil, c.unshift(r.Handle) })
}

// clockLimit is how long an agent may take to move clocks: it waits for a moment when no thread
// reads one.
const clockLimit = 20 * time.Second

// ShiftClock moves the clocks of components that the agent starts; see framework.ClockShifter.
func (c *Client) ShiftClock(ctx context.Context, components []framework.Component, s framework.ClockShift, ttl time.Duration) (handle string, err error) {
	err = c.do(ctx, clockLimit, http.MethodPost, "shift", fmt.Sprintf("shift the clock of %v", components),
		&request{Components: components, Shift: s, For: ttl}, &handle)
	return handle, err
}

// UnshiftClock ends a shift; see framework.ClockShifter.
func (c *Client) UnshiftClock(ctx context.Context, handle string) error {
	return c.do(ctx, clockLimit, http.MethodPost, "unshift", "undo the clock shift "+handle, &request{Handle: handle}, nil)
}

// ReadClock reports how the clock of a component is shifted; see framework.ClockShifter.
func (c *Client) ReadClock(ctx context.Context, component framework.Component) (r framework.ClockReading, err error) {
	err = c.do(ctx, clockLimit, http.MethodPost, "clock", fmt.Sprintf("read the clock of %s", component), &request{Component: component}, &r)
	return r, err
}
