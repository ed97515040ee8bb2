package local

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/framework"
)

// ClockSupport implements framework.ClockShifter.
func (n *node) ClockSupport() error { return clock.Supported() }

// ShiftClock implements framework.ClockShifter.
func (n *node) ShiftClock(ctx context.Context, components []framework.Component, s framework.ClockShift, ttl time.Duration) (string, error) {
	var handle string
	err := n.machine.agent.exchange(ctx, http.MethodPost, shiftPath, clockRequest{Components: components, Shift: s, For: ttl}, &handle)
	if err != nil {
		return "", fmt.Errorf("shifting the clock of %v on %s: %w", components, n.Name(), err)
	}
	return handle, nil
}

// UnshiftClock implements framework.ClockShifter.
func (n *node) UnshiftClock(ctx context.Context, handle string) error {
	if !n.machine.powered() {
		return nil // its processes are gone, and what was kept about them
	}
	if err := n.machine.agent.exchange(ctx, http.MethodPost, unshiftPath, handle, nil); err != nil {
		return fmt.Errorf("ending the shift of clocks %s on %s: %w", handle, n.Name(), err)
	}
	return nil
}

// ReadClock implements framework.ClockShifter.
func (n *node) ReadClock(ctx context.Context, c framework.Component) (framework.ClockReading, error) {
	var r framework.ClockReading
	path := clockPath + "?component=" + url.QueryEscape(string(c))
	if err := n.machine.agent.exchange(ctx, http.MethodGet, path, nil, &r); err != nil {
		return r, fmt.Errorf("reading the clock of %s on %s: %w", c, n.Name(), err)
	}
	return r, nil
}

// clockLimit is how long an agent may take to move clocks: it waits for a moment
// in which no thread reads one.
const clockLimit = 20 * time.Second

// exchange sends a request with a JSON body and reads the answer into out, unless
// that is nil.
func (c *agentClient) exchange(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := agenthttp.Within(ctx, clockLimit)
	defer cancel()
	return c.Call(ctx, method, path[1:], in, out)
}
