package agent

import (
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/holdfast-ha/holdfast/framework"
)

// What is condemned is not what is dropped: a table that marks packets and drops none of
// them gives itself away, by what passes behind it.
func TestMarkedAndNotDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	for _, from := range []int{node1, node2} {
		handle := l.impair(framework.Impairment{Cut: true}, time.Hour, link(from, 9999))
		if l.passes(from) {
			t.Fatalf("from %s: a packet passes a cut", hostName(from))
		}
		if c := l.counters(handle); c.Dropped != 1 || c.Passed != 0 {
			t.Errorf("from %s: one packet was dropped, the counters say %+v", hostName(from), c)
		}
		l.inside(node1, func() error { return spareTheCondemned(from == node1) })
		if !l.passes(from) {
			t.Fatalf("from %s: the table still drops", hostName(from))
		}
		if c := l.counters(handle); c.Passed == 0 {
			t.Errorf("from %s: a packet has passed, the counters say %+v", hostName(from), c)
		}
		// Of another port, which the cut is not about.
		before := l.counters(handle)
		l.datagrams(from, 9998, 1, 1)
		if c := l.counters(handle); c.Passed != before.Passed {
			t.Errorf("from %s: what it is not about counts as passed: %+v, before %+v", hostName(from), c, before)
		}
		l.restore(handle)
	}
}

// spareTheCondemned takes the rules away that drop what was condemned: of what the node
// sends where out is set, of what it receives otherwise.
func spareTheCondemned(out bool) error {
	b, err := newBatch()
	if err != nil {
		return err
	}
	if out {
		if b.silences() {
			b.DelTable(silenceTable())
			return b.Flush()
		}
	}
	for _, at := range bases() {
		if at.out != out {
			continue
		}
		rules, err := b.GetRules(b.table, b.chain(at.name))
		if err != nil {
			return err
		}
		for _, r := range rules {
			if len(r.Exprs) == len(condemned(condemnedToDrop))+1 { // and the verdict
				if err := b.DelRule(&nftables.Rule{Table: b.table, Chain: b.chain(at.name), Handle: r.Handle}); err != nil {
					return err
				}
			}
		}
	}
	return b.Flush()
}

// Counters are those of each link, and packets can be sent along one to be counted.
func TestProbesCount(t *testing.T) {
	t.Parallel()
	for _, agents := range []int{1, 2} {
		l := newLab(t, agents)
		links := []framework.Link{link(node1), link(node2, 2380)}
		handle := l.impair(framework.Impairment{Cut: true}, time.Hour, links...)
		count := func() []framework.LinkCounters {
			t.Helper()
			all, err := l.network.ImpairmentCounters(t.Context(), handle)
			must(t, err)
			return all
		}
		must(t, l.network.ProbeLink(t.Context(), links[0], 3))
		eventually(t, "what node-1 sent is counted", func() bool { return count()[0].Dropped >= 3 })
		if c := count()[1]; c.Matched != 0 {
			t.Errorf("%d agents: the other link has %+v", agents, c)
		}
		err := l.network.ProbeLink(t.Context(), links[1], 2)
		if agents == 1 {
			if err == nil {
				t.Error("a host without an agent has sent packets")
			}
			continue
		}
		must(t, err)
		eventually(t, "what node-2 sent is counted", func() bool { return count()[1].Dropped == 2 })
		l.restore(handle)
		if c := count(); c[0].Dropped < 3 || c[1].Dropped != 2 || c[0].Passed+c[1].Passed != 0 {
			t.Errorf("restored: %+v", c)
		}
	}
}
