package local

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
)

// impairments removes impairments of the network when their time to live has passed.
type impairments struct {
	mu     sync.Mutex
	timers expiry.Timers[vnet.RuleID] // guarded by mu
}

func (i *impairments) active() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.timers.Len()
}

func (i *impairments) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timers.StopAll()
}

// Parties implements framework.NetworkFaulter.
func (c *Cluster) Parties() []string {
	parties := []string{framework.HarnessHost}
	for _, m := range c.machines() {
		parties = append(parties, m.name)
	}
	return parties
}

// Impair implements framework.NetworkFaulter.
func (c *Cluster) Impair(_ context.Context, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		return "", fmt.Errorf("an impairment needs a time to live above zero, not %s", ttl)
	}
	parties := c.Parties()
	for _, l := range links {
		for _, p := range []string{l.From, l.To} {
			if !slices.Contains(parties, p) {
				return "", fmt.Errorf("no host %q on the network of cluster %s; there are %v", p, c.Name(), parties)
			}
		}
	}
	rule := vnet.Rule{Links: links, Impairment: imp}
	id, err := c.sw.Impair(rule)
	if err != nil {
		return "", fmt.Errorf("failed to impair the network of cluster %s: %w", c.Name(), err)
	}
	c.impair.mu.Lock()
	defer c.impair.mu.Unlock()
	c.impair.timers.Start(&c.impair.mu, id, ttl, func() error { c.sw.Remove(id); return nil })
	return handleOf(id), nil
}

// Restore implements framework.NetworkFaulter.
func (c *Cluster) Restore(_ context.Context, handle string) error {
	id, err := parseHandle(handle)
	if err != nil {
		return err
	}
	c.impair.mu.Lock()
	defer c.impair.mu.Unlock()
	c.impair.timers.Stop(id)
	c.sw.Remove(id)
	return nil
}

// ImpairmentCounters implements framework.NetworkFaulter.
func (c *Cluster) ImpairmentCounters(_ context.Context, handle string) ([]framework.LinkCounters, error) {
	id, err := parseHandle(handle)
	if err != nil {
		return nil, err
	}
	counters, ok := c.sw.RuleCounters(id)
	if !ok {
		return nil, fmt.Errorf("cluster %s has had no impairment %s recently", c.Name(), handle)
	}
	return counters, nil
}

// ProbeLink implements framework.LinkProber.
func (c *Cluster) ProbeLink(ctx context.Context, l framework.Link, packets int) error {
	var sender *machine
	address := netip.Addr{}
	for _, m := range c.machines() {
		switch m.name {
		case l.From:
			sender = m
		case l.To:
			address = m.addr.Addr()
		}
	}
	if l.To == framework.HarnessHost {
		address = host(harnessHost).Addr()
	}
	to := system.ProbeTarget(address, l)
	switch {
	case !address.IsValid() || sender == nil && l.From != framework.HarnessHost:
		return fmt.Errorf("cluster %s has no link from %q to %q", c.Name(), l.From, l.To)
	case sender == nil:
		return system.SendProbes(to, packets)
	}
	return sender.agent.SendProbes(ctx, to, packets)
}

// LinkState implements framework.LinkReporter.
func (c *Cluster) LinkState(_ context.Context, from, to string) (framework.LinkState, error) {
	if parties := c.Parties(); !slices.Contains(parties, from) || !slices.Contains(parties, to) || from == to {
		return framework.LinkState{}, fmt.Errorf("cluster %s has no link from %q to %q; its hosts are %v", c.Name(), from, to, parties)
	}
	l := c.sw.Link(from, to)
	state := framework.LinkState{Delivered: l.Delivered, Dropped: l.Dropped}
	for _, id := range l.Rules {
		state.Impairments = append(state.Impairments, handleOf(id))
	}
	return state, nil
}

func handleOf(id vnet.RuleID) string { return strconv.FormatUint(uint64(id), 10) }

func parseHandle(handle string) (vnet.RuleID, error) {
	id, err := strconv.ParseUint(handle, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a handle of an impairment: %w", handle, err)
	}
	return vnet.RuleID(id), nil
}
