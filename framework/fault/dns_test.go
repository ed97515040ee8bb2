package fault

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
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

func TestNames(t *testing.T) {
	wrong := netip.MustParseAddr("10.9.9.9")
	for name, p := range map[string]struct {
		fault   Fault
		params  map[string]string
		already framework.NameDisturbance
	}{
		"denied":        {DNSWrong, nil, framework.NameDisturbance{NotFound: true}},
		"wrong address": {DNSWrong, map[string]string{"address": "10.9.9.9", "names": "api.fake"}, framework.NameDisturbance{Address: wrong}},
		"slow":          {DNSSlow, map[string]string{"delay": "100ms"}, framework.NameDisturbance{Delay: time.Second}},
		"dead":          {DNSDead, nil, framework.NameDisturbance{Silent: true}},
	} {
		t.Run(name, func(t *testing.T) {
			proofs{
				fault:   p.fault,
				target:  wholeTarget("node-1"),
				params:  p.params,
				broken:  (*fakeCluster).ledAstray,
				already: func(c *fakeCluster) { c.astray = append(c.astray, p.already) },
			}.run(t)
		})
	}
}

func TestNamesCheck(t *testing.T) {
	c := newFake()
	for name, bad := range map[string]struct {
		fault Fault
		value string
		want  string
	}{
		"address": {DNSWrong, "there", "NXDOMAIN"},
		"delay":   {DNSSlow, "-1s", "10ms to 30s"},
		"names":   {DNSDead, "api.fake,nobody", "api.fake, node-1"},
	} {
		err := bad.fault.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{name: bad.value}})
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s=%s: %v", name, bad.value, err)
		}
	}
	for _, target := range []Target{{Asked: "workers", Host: "workers"}, {Asked: "harness", Host: "harness"}, {Asked: "zone/b", Nodes: []string{"node-2", "node-3"}}} {
		if err := DNSDead.Check(c, target, Params{TTL: ttl}); err != nil {
			t.Errorf("%s: %v", target.Asked, err)
		}
	}
	if err := DNSDead.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"names": "node-1"}}); err == nil {
		t.Error("a host's own name: accepted")
	}
	if err := DNSDead.Check(c, component("node-1", framework.Etcd), Params{TTL: ttl}); err == nil {
		t.Error("a component: accepted")
	}
}
