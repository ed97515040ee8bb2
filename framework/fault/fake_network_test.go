package fault

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeCut is an impairment of a fake cluster, of any kind.
type fakeCut struct {
	links        []framework.Link
	is           framework.Impairment
	began, ended time.Time
	still        bool              // counts nothing
	probed       map[string]uint64 // packets sent along its links
}

func (x *fakeCut) active() bool { return !x.began.IsZero() && x.ended.IsZero() }

func (c *fakeCluster) Parties() []string {
	return append(framework.NodeNames(c.Nodes()), "balancer", "workers", "harness")
}

func (c *fakeCluster) Impair(_ context.Context, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ask() {
		x := &fakeCut{links: links, is: imp, began: time.Now()}
		c.cuts = append(c.cuts, x)
		c.later(ttl, func() { c.restore(x) })
		if c.onCut != nil {
			c.onCut(links, true)
		}
	} else {
		c.cuts = append(c.cuts, &fakeCut{})
	}
	return string(rune('a' + len(c.cuts) - 1)), c.refuses
}

func (c *fakeCluster) cut(handle string) *fakeCut { return c.cuts[handle[0]-'a'] }

func (c *fakeCluster) restore(x *fakeCut) {
	if !x.active() {
		return
	}
	x.ended = time.Now()
	if c.onCut != nil {
		c.onCut(x.links, false)
	}
}

func (c *fakeCluster) Restore(_ context.Context, handle string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stubborn {
		c.restore(c.cut(handle))
	}
	return nil
}

// ImpairmentCounters counts one packet a millisecond on each link whose sender
// is on, the receiver being off or not.
func (c *fakeCluster) ImpairmentCounters(_ context.Context, handle string) ([]framework.LinkCounters, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.cut(handle)
	end := x.ended
	if end.IsZero() {
		end = time.Now()
	}
	all := make([]framework.LinkCounters, len(x.links))
	for i, l := range x.links {
		n := &all[i]
		if !c.isOff(l.From) && !x.still && !c.idle[l.From+">"+l.To] {
			n.Matched = uint64(end.Sub(x.began) / time.Millisecond)
		}
		n.Matched += x.probed[l.From+">"+l.To]
		share := func(s float64) uint64 { return uint64(s * float64(n.Matched)) }
		n.Dropped, n.Duplicated, n.Reordered, n.Corrupted = share(x.is.Loss), share(x.is.Duplicate), share(x.is.Reorder), share(x.is.Corrupt)
		if x.is.Cut || x.is.Reset {
			n.Dropped = n.Matched
		}
		if x.is.Reset {
			n.Resets = 2 * n.Matched
		}
		if x.is.Delay > 0 || x.is.Rate > 0 {
			n.Delayed, n.Held = n.Matched, n.Matched-min(n.Matched, uint64(x.is.Delay/time.Millisecond)) // one a millisecond
			n.HeldFor = time.Duration(n.Held) * (x.is.Delay + c.late)
		}
		if x.is.Rate > 0 {
			n.HeldBytes = 1000 * n.Held
			n.HeldFor += time.Duration(float64(n.HeldBytes) * 8e9 / float64(x.is.Rate))
		}
		if c.bypassed {
			n.Bypassed = 1
		}
		if x.is.FlapOn > 0 {
			continue
		}
		n.Passed = n.Matched - n.Dropped + n.Duplicated
		if c.leaks[l.From+">"+l.To] && n.Dropped > 1 {
			n.Passed += n.Dropped - 1
			n.Dropped = 1
		}
	}
	return all, nil
}

// probingCluster sends packets along its links.
type probingCluster struct{ *fakeCluster }

func (c probingCluster) ProbeLink(_ context.Context, l framework.Link, packets int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOff(l.From) {
		return errors.New("no agent answers")
	}
	c.probes += packets
	for _, x := range c.cuts {
		if x.active() && !c.whole[l.From+">"+l.To] && slices.ContainsFunc(x.links, func(o framework.Link) bool { return o.From == l.From && o.To == l.To }) {
			if x.probed == nil {
				x.probed = map[string]uint64{}
			}
			x.probed[l.From+">"+l.To] += uint64(packets)
		}
	}
	return nil
}

func (c *fakeCluster) isOff(party string) bool {
	i := slices.IndexFunc(c.nodes, func(n *fakeNode) bool { return n.name == party })
	return i >= 0 && c.nodes[i].off
}

// on reports whether an impairment is on a link, in either direction, for a port.
func (x *fakeCut) on(a, b string, port uint16) bool {
	return x.active() && slices.ContainsFunc(x.links, func(l framework.Link) bool {
		return (l.From == a && l.To == b || l.From == b && l.To == a) && (len(l.Ports) == 0 || slices.Contains(l.Ports, port))
	})
}

// severed reports whether packets between two parties are dropped.
func (c *fakeCluster) severed(a, b string, port uint16) bool {
	return slices.ContainsFunc(c.cuts, func(x *fakeCut) bool {
		return (x.is.Cut || x.is.Reset) && !x.is.Established && x.on(a, b, port)
	})
}

// impaired reports whether any impairment is active.
func (c *fakeCluster) impaired() bool { return slices.ContainsFunc(c.cuts, (*fakeCut).active) }

// reportingCluster reports about its links as well.
type reportingCluster struct{ *fakeCluster }

// LinkState counts one packet a millisecond on each link.
func (c reportingCluster) LinkState(_ context.Context, from, to string) (framework.LinkState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var state framework.LinkState
	if packets := uint64(time.Now().UnixMilli()); c.severed(from, to, 0) {
		state.Dropped = packets
	} else {
		state.Delivered = packets
	}
	for i, x := range c.cuts {
		if x.active() && slices.ContainsFunc(x.links, func(l framework.Link) bool { return l.From == from && l.To == to }) {
			state.Impairments = append(state.Impairments, string(rune('a'+i)))
		}
	}
	return state, nil
}
