package agent

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestTableFlushed deletes the rules while the agent runs, as a restart of nftables does.
func TestTableFlushed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	cut := func(from int, ttl time.Duration) (handle string) {
		t.Helper()
		handle = l.impair(framework.Impairment{Cut: true}, ttl, link(from))
		if l.passes(from) {
			t.Errorf("a packet from %s passes a cut", hostName(from))
		}
		return handle
	}
	flush := func() {
		t.Helper()
		l.inside(node1, flushRuleset)
		l.whole()
	}
	for _, from := range []int{node1, node2} {
		handle := cut(from, time.Hour)
		before := l.counters(handle)
		flush()
		l.restore(handle)
		l.whole()
		if c := l.counters(handle); c.Dropped != before.Dropped || c.Bypassed == 0 {
			t.Errorf("a cut without rules: the counters say %+v, before %+v", c, before)
		}
	}

	first := cut(node1, time.Hour)
	flush()
	second := cut(node2, time.Hour)
	if l.passes(node1) {
		t.Error("a packet passes the earlier cut")
	}
	l.restore(second)
	l.restore(first)
	l.whole()
	if c, later := l.counters(first), l.counters(second); c.Bypassed == 0 || later.Bypassed > 0 {
		t.Errorf("the counters of the earlier cut say %+v, of the later one %+v", c, later)
	}

	cut(node1, 5*time.Second)
	flush()
	must(t, l.network.Meet(t.Context()))
	if l.passes(node1) {
		t.Error("with its peers set again, a packet passes the cut")
	}
	l.inside(node1, flushRuleset)
	eventually(t, "its time is over", func() bool { return len(l.state(node1).Impairments) == 0 })
	l.whole()
}

// A link that passes through user space, and one from which nftables drops a share, say so too.
func TestDetourFlushed(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	for _, imp := range []framework.Impairment{{Delay: 20 * time.Millisecond}, {Loss: 0.5}} {
		whole := l.impair(imp, time.Hour, link(node1))
		l.restore(whole)
		if c := l.counters(whole); c.Bypassed > 0 {
			t.Errorf("%+v, with its rules throughout: the counters say %+v", imp, c)
		}
		first := l.impair(imp, time.Hour, link(node1))
		l.inside(node1, flushRuleset)
		second := l.impair(imp, time.Hour, link(node2)) // it makes the tables again
		l.restore(first)
		l.restore(second)
		if c, later := l.counters(first), l.counters(second); c.Bypassed == 0 || later.Bypassed > 0 {
			t.Errorf("%+v: the counters of the one that was removed say %+v, of the later one %+v", imp, c, later)
		}
		last := l.impair(imp, time.Hour, link(node2))
		l.inside(node1, flushRuleset)
		l.restore(last)
		if c := l.counters(last); c.Bypassed == 0 {
			t.Errorf("%+v, removed just before its end: the counters say %+v", imp, c)
		}
	}
	l.whole()
}

// TestTableFlushedBetweenPhases deletes the rules of an impairment that flaps, in either of its phases.
func TestTableFlushedBetweenPhases(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.nodes[node1].kill()
	l.serve(node1, 2380)
	f := newFlaky(t, l, t.TempDir())
	f.resume(false)
	f.meets()
	must(t, f.impair(request{Handle: "flaps", Paths: []Path{{Peer: hostName(node2)}}, For: time.Hour,
		Impairment: framework.Impairment{Cut: true, Established: true, FlapOn: time.Hour, FlapOff: time.Hour}}))
	s := f.saved()["flaps"]
	for _, off := range []bool{true, false} {
		l.inside(node1, flushRuleset)
		conn := l.mustDial(node2, 2380)
		f.mu.Lock()
		err := f.flap("flaps", s, off)
		f.mu.Unlock()
		must(t, err)
		limit := quiet
		if off {
			limit = 5 * time.Second
		}
		if err := echo(conn, limit); (err == nil) != off {
			t.Errorf("off: %t, on a connection from before: %v", off, err)
		}
	}
}

func flushRuleset() error {
	b, err := newBatch()
	if err != nil {
		return err
	}
	b.FlushRuleset()
	return b.Flush()
}

// whole fails the test unless packets pass both ways.
func (l *lab) whole() {
	l.t.Helper()
	if !l.passes(node1) || !l.passes(node2) {
		l.t.Error("a link that is not impaired carries no packets")
	}
}
