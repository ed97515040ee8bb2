package fault

import (
	"context"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

var none framework.NameDisturbance

func (c *fakeCluster) Names() []string { return []string{"api.fake", "node-1"} }

func (c *fakeCluster) DisturbNames(_ context.Context, _ []string, d framework.NameDisturbance, ttl time.Duration) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ask() {
		d = none
	}
	c.astray = append(c.astray, d)
	at := len(c.astray) - 1
	c.later(ttl, func() { c.astray[at] = none })
	return strconv.Itoa(at), c.refuses
}

func (c *fakeCluster) RestoreNames(_ context.Context, handle string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := strconv.Atoi(handle)
	if err == nil && !c.stubborn {
		c.astray[at] = none
	}
	return err
}

func (c *fakeCluster) LookUp(_ context.Context, _, name string) (framework.Lookup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := framework.Lookup{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	for _, d := range c.astray {
		l.Took += d.Delay
		switch {
		case d.Silent:
			return framework.Lookup{Problem: "lookup " + name + ": i/o timeout", Took: 2 * time.Second}, nil
		case d.NotFound:
			return framework.Lookup{Problem: "lookup " + name + ": no such host"}, nil
		case d.Address.IsValid():
			l.Addresses = []netip.Addr{d.Address}
		}
	}
	return l, nil
}

func (c *fakeCluster) ledAstray() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.astray {
		if d.Silent || d.NotFound || d.Delay > 0 || d.Address.IsValid() {
			return true
		}
	}
	return false
}

// proveNames puts a fault of DNS to every test.
func proveNames(t *testing.T, f *Fault, params map[string]string, already framework.NameDisturbance) {
	t.Helper()
	proofs{
		fault:   f,
		target:  wholeTarget("node-1"),
		params:  params,
		broken:  (*fakeCluster).ledAstray,
		already: func(c *fakeCluster) { c.astray = append(c.astray, already) },
	}.run(t)
}
