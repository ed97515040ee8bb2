package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// clockStateSuffix is that of the file beside the agent's state in which it keeps
// the active shifts.
const clockStateSuffix = ".clocks"

// clocks moves the clocks of an agent's components. What is active is written
// down, so that a successor keeps it and ends it in time.
type clocks struct {
	a    *agent
	path string

	mu     sync.Mutex
	timers expiry.Timers[string] // guarded by mu; by handle
	shifts map[string]savedShift // guarded by mu; by handle
	// used says that a component may have another clock than the machine.
	used bool // guarded by mu
}

// savedShift is an active shift.
type savedShift struct {
	Components []framework.Component `json:"components"`
	Shift      clock.Shift           `json:"shift"`
	Until      time.Time             `json:"until"`
}

func newClocks(a *agent) (*clocks, error) {
	c := &clocks{a: a, path: a.cfg.State + clockStateSuffix, shifts: map[string]savedShift{}}
	if b, err := os.ReadFile(c.path); err == nil {
		c.used = true
		if err := json.Unmarshal(b, &c.shifts); err != nil {
			return nil, fmt.Errorf("reading the shifts of clocks from %s: %w", c.path, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for handle, s := range c.shifts {
		c.timers.Start(&c.mu, handle, time.Until(s.Until), func() error { return c.end(handle) })
	}
	return c, nil
}

// save writes down what is active. The caller holds the lock.
func (c *clocks) save() error {
	b, err := json.Marshal(c.shifts)
	if err == nil {
		err = system.ReplaceFile(c.path, b, 0o600, false)
	}
	if err != nil {
		return fmt.Errorf("writing down the shifts of clocks: %w", err)
	}
	return nil
}

// clockRequest asks for a shift.
type clockRequest struct {
	Components []framework.Component `json:"components"`
	Shift      framework.ClockShift  `json:"shift"`
	// For is how long it lasts.
	For time.Duration `json:"for"`
}

// shift moves the clocks of components that run, and of those that start.
func (c *clocks) shift(req clockRequest) (handle string, err error) {
	if req.For <= 0 {
		return "", fmt.Errorf("a shift needs a time to live above zero, not %s", req.For)
	}
	for _, name := range req.Components {
		if c.a.supervisors[name] == nil {
			return "", fmt.Errorf("no component %q here", name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := savedShift{Components: req.Components, Until: now.Add(req.For),
		Shift: clock.Shift{Offset: req.Shift.Offset, Drift: req.Shift.Drift, Base: now.Round(0)}}
	// Never the same again, also by an agent that knows nothing of this one.
	handle = strconv.FormatInt(now.UnixNano(), 36)
	c.shifts[handle], c.used = s, true
	if err = c.save(); err == nil {
		err = c.settleAll(s.Components)
	}
	if err != nil {
		delete(c.shifts, handle)
		return "", errors.Join(err, c.settleAll(s.Components), c.save())
	}
	c.timers.Start(&c.mu, handle, req.For, func() error { return c.end(handle) })
	return handle, nil
}

// unshift ends a shift; it does nothing where it is gone.
func (c *clocks) unshift(handle string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end(handle)
}

// end is unshift with mu held.
func (c *clocks) end(handle string) error {
	s, ok := c.shifts[handle]
	if !ok {
		return nil
	}
	delete(c.shifts, handle)
	if err := c.settleAll(s.Components); err != nil {
		c.shifts[handle] = s
		return fmt.Errorf("ending the shift of clocks %s: %w", handle, err)
	}
	c.timers.Stop(handle)
	return c.save()
}

// of returns how the clock of a component should be. The caller holds the lock.
func (c *clocks) of(name framework.Component) (sum clock.Shift, handles []string) {
	var shifts []clock.Shift
	for _, handle := range slices.Sorted(maps.Keys(c.shifts)) {
		if s := c.shifts[handle]; slices.Contains(s.Components, name) {
			shifts = append(shifts, s.Shift)
			handles = append(handles, handle)
		}
	}
	return clock.Sum(shifts...), handles
}

// settleAll makes the clocks of the components that run what they should be. The
// caller holds the lock.
func (c *clocks) settleAll(names []framework.Component) error {
	var errs []error
	for _, name := range names {
		s := c.a.supervisors[name]
		pid, gone := s.current()
		if pid == 0 {
			continue // it gets its clock when it starts
		}
		want, _ := c.of(name)
		err := clock.Apply(pid, want)
		if err != nil && !endsSoon(gone) {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// endsSoon reports whether a process ends. Its supervisor learns it only after it did,
// which takes a moment.
func endsSoon(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// start starts a component with the clock that it should have. The caller holds
// the lock.
func (c *clocks) start(name framework.Component, cmd *exec.Cmd) error {
	want, _ := c.of(name)
	if want.IsZero() {
		return cmd.Start()
	}
	err := clock.Start(cmd, want)
	if errors.Is(err, clock.ErrNotShifted) {
		// It runs, and settle tries again.
		fmt.Fprintf(os.Stderr, "node agent: %s: %v\n", name, err)
		return nil
	}
	return err
}

// settle makes up for what changed while a component was being started, or while
// there was no agent.
func (c *clocks) settle(name framework.Component, pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		return
	}
	want, _ := c.of(name)
	if err := clock.Apply(pid, want); err != nil {
		fmt.Fprintf(os.Stderr, "node agent: %s: %v\n", name, err)
	}
}

// read reports how the clock of a component is shifted.
func (c *clocks) read(name framework.Component) (framework.ClockReading, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.a.supervisors[name]
	if s == nil {
		return framework.ClockReading{}, fmt.Errorf("no component %q here", name)
	}
	pid, _ := s.current()
	if pid == 0 {
		return framework.ClockReading{}, errNotRunning
	}
	got, err := clock.Read(pid)
	if err != nil {
		return framework.ClockReading{}, err
	}
	_, handles := c.of(name)
	return framework.ClockReading{Offset: got.At(time.Now()), Drift: got.Drift, Shifts: handles, Untouched: got.IsZero()}, nil
}

// Paths of the agent that are about clocks.
const (
	clockPath   = "/clock"   // GET, with a component: how it is shifted
	shiftPath   = "/shift"   // POST a clockRequest: the handle
	unshiftPath = "/unshift" // POST a handle
)

// serve answers requests for those paths, and returns false for any other.
func (c *clocks) serve(w http.ResponseWriter, r *http.Request) bool {
	var answer any
	var err error
	switch r.Method + " " + r.URL.Path {
	case "GET " + clockPath:
		answer, err = c.read(framework.Component(r.URL.Query().Get("component")))
	case "POST " + shiftPath:
		var req clockRequest
		if err = json.NewDecoder(r.Body).Decode(&req); err == nil {
			answer, err = c.shift(req)
		}
	case "POST " + unshiftPath:
		var handle string
		if err = json.NewDecoder(r.Body).Decode(&handle); err == nil {
			err = c.unshift(handle)
		}
	default:
		return false
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	} else {
		_ = json.NewEncoder(w).Encode(answer)
	}
	return true
}
