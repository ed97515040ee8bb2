package fault

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeCut is an impairment of a fake cluster, of any kind.
type fakeCut struct {
	links        []framework.Link
	is           framework.Impairment
	began, ended time.Time
	still        bool // counts nothing
}

func (x *fakeCut) inForce() bool { return !x.began.IsZero() && x.ended.IsZero() }

func (c *fakeCluster) Parties() []string {
	return append(nodeNames(c.Nodes()), "balancer", "workers", "harness")
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
	if !x.inForce() {
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
func (c *fakeCluster) ImpairmentCounters(_ context.Context, handle string) (framework.LinkCounters, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.cut(handle)
	end := x.ended
	if end.IsZero() {
		end = time.Now()
	}
	var n framework.LinkCounters
	for _, l := range x.links {
		if !c.isOff(l.From) && !x.still {
			n.Matched += uint64(end.Sub(x.began) / time.Millisecond)
		}
	}
	share := func(s float64) uint64 { return uint64(s * float64(n.Matched)) }
	n.Dropped, n.Duplicated, n.Reordered, n.Corrupted = share(x.is.Loss), share(x.is.Duplicate), share(x.is.Reorder), share(x.is.Corrupt)
	if x.is.Cut || x.is.Reset {
		n.Dropped = n.Matched
	}
	if x.is.Reset {
		n.Resets = 2 * n.Matched
	}
	if x.is.Delay > 0 || x.is.Rate > 0 {
		n.Delayed, n.Held = n.Matched, n.Matched
		n.HeldFor = time.Duration(n.Matched) * (x.is.Delay + c.late)
	}
	return n, nil
}

func (c *fakeCluster) isOff(party string) bool {
	i := slices.IndexFunc(c.nodes, func(n *fakeNode) bool { return n.name == party })
	return i >= 0 && c.nodes[i].off
}

// on tells whether an impairment is on a link, in either direction, for a port.
func (x *fakeCut) on(a, b string, port uint16) bool {
	return x.inForce() && slices.ContainsFunc(x.links, func(l framework.Link) bool {
		return (l.From == a && l.To == b || l.From == b && l.To == a) && (len(l.Ports) == 0 || slices.Contains(l.Ports, port))
	})
}

// severed tells whether packets between two parties are dropped.
func (c *fakeCluster) severed(a, b string, port uint16) bool {
	return slices.ContainsFunc(c.cuts, func(x *fakeCut) bool {
		return (x.is.Cut || x.is.Reset) && !x.is.Established && x.on(a, b, port)
	})
}

// impaired tells whether any impairment is in force.
func (c *fakeCluster) impaired() bool { return slices.ContainsFunc(c.cuts, (*fakeCut).inForce) }

// reportingCluster tells about its links as well.
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
		if x.inForce() && slices.ContainsFunc(x.links, func(l framework.Link) bool { return l.From == from && l.To == to }) {
			state.Impairments = append(state.Impairments, string(rune('a'+i)))
		}
	}
	return state, nil
}
