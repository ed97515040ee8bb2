package agent

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestCut cuts a link one way: at the receiver, which has the agent, and at the
// sender, where only that has one.
func TestCut(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	for _, from := range []int{node1, node2} {
		back := 1 - from
		before := l.state(from)
		handle := l.impair(framework.Impairment{Cut: true}, time.Hour, link(from))
		if l.passes(from) || !l.passes(back) {
			t.Errorf("cut from %s: it is not that way alone which is cut", hostName(from))
		}
		c := l.counters(handle)
		if c.Matched != 1 || c.Dropped != 1 || c.Resets != 0 {
			t.Errorf("cut from %s: one packet was dropped, the counters say %+v", hostName(from), c)
		}
		if s := l.state(from); !slices.Equal(s.Impairments, []string{handle}) || s.Dropped != before.Dropped+1 || s.Delivered != before.Delivered {
			t.Errorf("cut from %s: the link is %+v, was %+v", hostName(from), s, before)
		}
		if s := l.state(back); len(s.Impairments) > 0 {
			t.Errorf("cut from %s: the other direction is %+v", hostName(from), s)
		}
		l.restore(handle)
		l.restore(handle)
		if !l.passes(from) {
			t.Errorf("restored, the link from %s does not carry packets", hostName(from))
		}
		if after := l.counters(handle); after != c {
			t.Errorf("restored, the counters say %+v, before %+v", after, c)
		}
		if s := l.state(from); len(s.Impairments) > 0 || s.Dropped != before.Dropped+1 || s.Delivered != before.Delivered+1 {
			t.Errorf("restored, the link is %+v, was %+v", s, before)
		}
	}
	if _, err := l.network.ImpairmentCounters(t.Context(), "none"); err == nil {
		t.Error("there are counters of what never was")
	}
}

// TestBothAgents cuts both ways between two nodes with agents: each does its part.
func TestBothAgents(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	handle := l.impair(framework.Impairment{Cut: true}, time.Hour, link(node1), link(node2))
	if l.passes(node1) || l.passes(node2) {
		t.Error("a link that is cut carries packets")
	}
	if c := l.counters(handle); c.Dropped != 2 {
		t.Errorf("two packets were dropped, the counters say %+v", c)
	}
	l.restore(handle)

	// A node whose agent does not answer has its links impaired by the others.
	l.nodes[node2].kill()
	handle = l.impair(framework.Impairment{Cut: true}, time.Hour, link(node1), link(node2))
	if l.passes(node1) || l.passes(node2) {
		t.Error("a link of a node without its agent carries packets")
	}
	if s := l.state(node1); !slices.Contains(s.Impairments, handle) || s.Dropped == 0 {
		t.Errorf("the link to a node without its agent is %+v", s)
	}
	l.restore(handle) // by the others: the silent one was not asked for it
	l.nodes[node2].up()
	if !l.passes(node1) || !l.passes(node2) {
		t.Error("a link that was restored carries no packets")
	}
}

// TestOverlap puts two cuts on a link: each counts as if it were alone, and either
// is enough.
func TestOverlap(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	first := l.impair(framework.Impairment{Cut: true}, time.Hour, link(node2))
	second := l.impair(framework.Impairment{Cut: true}, time.Hour, link(node2))
	if l.passes(node2) {
		t.Error("a packet passes two cuts")
	}
	for _, handle := range []string{first, second} {
		if c := l.counters(handle); c.Dropped != 1 {
			t.Errorf("one of two cuts counts %+v", c)
		}
	}
	l.restore(first)
	if l.passes(node2) {
		t.Error("a packet passes the cut that is left")
	}
	l.restore(second)
	if !l.passes(node2) {
		t.Error("no packet passes what is restored")
	}
}

func TestLoss(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	const sent = 400
	handle := l.impair(framework.Impairment{Loss: 0.5}, time.Hour, link(node2))
	// By chance one in a hundred thousand million runs is beyond these.
	if came := l.datagrams(node2, 9998, sent, sent); came < 130 || came > 270 {
		t.Errorf("%d of %d packets came, half of which are to be lost", came, sent)
	} else if c := l.counters(handle); c.Matched != sent || c.Dropped != uint64(sent-came) {
		t.Errorf("%d of %d packets came, the counters say %+v", came, sent, c)
	}
	l.restore(handle)
	l.impair(framework.Impairment{Loss: 1}, time.Hour, link(node2))
	if came := l.datagrams(node2, 9998, 20, 20); came > 0 {
		t.Errorf("%d of 20 packets came, all of which are to be lost", came)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.serve(node1, 2380)
	l.serve(node1, 2379)
	handle := l.impair(framework.Impairment{Cut: true}, time.Hour, link(node2, 2380, 7000))
	if _, err := l.dial(node2, 2380, quiet); !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("connecting to a port that is cut: %v", err)
	}
	l.mustDial(node2, 2379)
	if !l.passes(node2) {
		t.Error("a port that is not cut carries no packets")
	}
	if came := l.datagrams(node2, 7000, 1, 1); came > 0 {
		t.Error("UDP passes a port that is cut")
	}
	if c := l.counters(handle); c.Dropped < 2 || c.Matched != c.Dropped {
		t.Errorf("the counters say %+v", c)
	}
	l.restore(handle)
	l.mustDial(node2, 2380)
}

// TestReset resets connections that are made from either end. The end that sends receives RST,
// and so does the other end, which only listens.
func TestReset(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.serve(node1, 2380)
	l.serve(node2, 2380)
	for _, from := range []int{node1, node2} {
		listener := l.listen(1-from, 2381)
		accepted := make(chan net.Conn, 1)
		go func() {
			if conn, err := listener.Accept(); err == nil {
				accepted <- conn
			}
		}()
		speaks, err := l.dial(from, 2381, 5*time.Second)
		must(t, err)
		listens := <-accepted
		defer listens.Close()
		busy, idle := l.mustDial(from, 2380), l.mustDial(from, 2380)
		handle := l.impair(framework.Impairment{Reset: true}, time.Hour, link(node1), link(node2))
		if err := echo(busy, 5*time.Second); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection of %s that is reset: %v", hostName(from), err)
		}
		if _, err := l.dial(from, 2380, 5*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new connection of %s: %v", hostName(from), err)
		}
		_, _ = speaks.Write([]byte("x"))
		_ = listens.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := listens.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the end that listens to %s: %v", hostName(from), err)
		}
		if !l.passes(from) {
			t.Error("what is not TCP does not pass")
		}
		c := l.counters(handle)
		if c.Dropped < 2 || c.Resets <= c.Dropped {
			t.Errorf("the counters say %+v", c)
		}
		l.restore(handle)
		if after := l.counters(handle); after.Resets < c.Resets {
			t.Errorf("restored, the counters say %+v, before %+v", after, c)
		}
		must(t, echo(idle, 5*time.Second))
		l.mustDial(from, 2380)
		_ = listener.Close()
	}
}

func TestEstablished(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.serve(node1, 2380)
	l.serve(node2, 2380)
	for _, reset := range []bool{false, true} {
		for _, from := range []int{node1, node2} {
			old := l.mustDial(from, 2380)
			handle := l.impair(framework.Impairment{Cut: !reset, Reset: reset, Established: true}, time.Hour, link(node1), link(node2))
			fresh := l.mustDial(from, 2380)
			limit := quiet
			if reset {
				limit = patience
			}
			err := echo(old, limit)
			if !reset && !errors.Is(err, os.ErrDeadlineExceeded) || reset && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("reset %v: a connection of %s from before: %v", reset, hostName(from), err)
			}
			if err := echo(fresh, 5*time.Second); err != nil {
				t.Errorf("reset %v: a connection of %s from after: %v", reset, hostName(from), err)
			}
			if c := l.counters(handle); c.Dropped == 0 || reset != (c.Resets > 0) {
				t.Errorf("reset %v: the counters say %+v", reset, c)
			}
			l.restore(handle)
			must(t, echo(fresh, 5*time.Second))
		}
	}
}

func TestFlap(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	const phase = 600 * time.Millisecond
	handle := l.impair(framework.Impairment{Cut: true, FlapOn: phase, FlapOff: phase}, time.Hour, link(node2))
	for range 2 {
		eventually(t, "it is active", func() bool { return !l.passes(node2) })
		eventually(t, "it is inactive", func() bool { return l.passes(node2) })
	}
	if s := l.state(node2); !slices.Contains(s.Impairments, handle) {
		t.Errorf("the link is %+v", s)
	}
	l.restore(handle)
	before := l.counters(handle)
	time.Sleep(phase)
	if !l.passes(node2) {
		t.Error("restored, it comes again")
	}
	if c := l.counters(handle); c != before || c.Dropped == 0 {
		t.Errorf("restored, it has counted %+v, then %+v", before, c)
	}
}

// TestFlapEstablished shows that a connection that is new in one phase was there
// before the next one.
func TestFlapEstablished(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.serve(node1, 2380)
	const phase = 500 * time.Millisecond
	l.impair(framework.Impairment{Cut: true, Established: true, FlapOn: phase, FlapOff: phase}, time.Hour, link(node2))
	fresh := l.mustDial(node2, 2380)
	eventually(t, "it is active for what came in between", func() bool { return echo(fresh, 50*time.Millisecond) != nil })
}

func TestImpairmentExpires(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	handle := l.impair(framework.Impairment{Cut: true}, l.nodes[node1].beyond(500*time.Millisecond), link(node2))
	if l.passes(node2) {
		t.Error("a packet passes a cut")
	}
	eventually(t, "its time is over", func() bool { return l.passes(node2) })
	if s := l.state(node2); len(s.Impairments) > 0 {
		t.Errorf("its time being over, the link is %+v", s)
	}
	if c := l.counters(handle); c.Dropped == 0 {
		t.Errorf("its time being over, the counters say %+v", c)
	}
}

// TestImpairmentDeadMan kills the agent in the middle of faults on links.
func TestImpairmentDeadMan(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.serve(node1, 2380)
	old := l.mustDial(node2, 2380)
	ttl := l.nodes[node1].beyond(time.Second)
	short := l.impair(framework.Impairment{Cut: true}, ttl, link(node1))
	established := l.impair(framework.Impairment{Cut: true, Established: true}, 2*ttl+time.Second, link(node2))
	fresh := func() error {
		conn, err := l.dial(node2, 2380, ttl/2) // together less than the longer one lasts after the shorter one
		if err == nil {
			err = echo(conn, ttl/2)
		}
		return err
	}
	l.passes(node1)
	before := l.counters(short)
	l.nodes[node1].kill()
	if l.passes(node1) {
		t.Error("without its agent the link is whole")
	}
	l.nodes[node1].up()
	if c := l.counters(short); c.Dropped <= before.Dropped {
		t.Errorf("the successor counts %+v, before %+v", c, before)
	}
	eventually(t, "the shorter one is over", func() bool { return l.passes(node1) })
	if err := fresh(); err != nil {
		t.Errorf("to the successor, new connections are old ones: %v", err)
	}
	if err := echo(old, quiet); err == nil {
		t.Error("the longer one is over too")
	}
	eventually(t, "the longer one is over", func() bool { return echo(old, quiet) == nil })

	// A time that is over while no agent is there.
	last := l.impair(framework.Impairment{Cut: true}, 300*time.Millisecond, link(node2))
	l.nodes[node1].kill()
	time.Sleep(300 * time.Millisecond)
	l.nodes[node1].up()
	if !l.passes(node2) {
		t.Error("the successor has not healed what was over")
	}
	for _, handle := range []string{short, established, last} {
		l.counters(handle)
		if s := l.state(node2); slices.Contains(s.Impairments, handle) {
			t.Errorf("the link is %+v", s)
		}
	}
}

// TestImpairmentOutlivesRestart gives the node a network without rules, as a
// restart does.
func TestImpairmentOutlivesRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	handle := l.impair(framework.Impairment{Cut: true}, time.Hour, link(node2))
	if l.passes(node2) {
		t.Error("a packet passes a cut")
	}
	must(t, l.nodes[node1].agent.Process.Signal(syscall.SIGTERM))
	_ = l.nodes[node1].agent.Wait()
	l.inside(node1, func() error {
		b, err := newBatch()
		if err != nil {
			return err
		}
		b.DelTable(b.table)
		return b.Flush()
	})
	if !l.passes(node2) {
		t.Fatal("there are still rules")
	}
	l.nodes[node1].up()
	if l.passes(node2) {
		t.Error("after a restart a packet passes a cut")
	}
	if c := l.counters(handle); c.Dropped != 2 {
		t.Errorf("two packets were dropped, the counters say %+v", c)
	}
	if s := l.state(node2); s.Dropped != 2 || !slices.Equal(s.Impairments, []string{handle}) {
		t.Errorf("the link is %+v", s)
	}
	l.restore(handle)
	if !l.passes(node2) {
		t.Error("restored, the link carries no packets")
	}
}

func TestImpairmentRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	cut := framework.Impairment{Cut: true}
	for _, tt := range []struct {
		what  string
		imp   framework.Impairment
		ttl   time.Duration
		links []framework.Link
		words string
	}{
		{"no time", cut, 0, []framework.Link{link(node1)}, "time to live"},
		{"no link", cut, time.Hour, nil, "no link"},
		{"a stranger", cut, time.Hour, []framework.Link{{From: "node-1", To: "node-9"}}, "node-9"},
		{"cut and reset", framework.Impairment{Cut: true, Reset: true}, time.Hour, []framework.Link{link(node1)}, "cannot be combined"},
		{"reset and delay", framework.Impairment{Delay: time.Second, Reset: true}, time.Hour, []framework.Link{link(node1)}, ""},
	} {
		_, err := l.network.Impair(t.Context(), tt.links, tt.imp, tt.ttl)
		if err == nil || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if !l.passes(node1) || !l.passes(node2) || len(l.state(node1).Impairments)+len(l.state(node2).Impairments) > 0 {
		t.Error("what was refused has been done")
	}
}

// TestCutOff: a node is cut off both ways by its own agent, even if that of its peer is gone.
func TestCutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.nodes[node2].kill()
	if err := l.network.CutOff(t.Context(), hostName(node1), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if l.passes(node1) || l.passes(node2) {
		t.Error("a link of a node that was cut off carries packets")
	}
	eventually(t, "the node is no longer cut off", func() bool { return l.passes(node1) && l.passes(node2) })
	if err := l.network.CutOff(t.Context(), "none", time.Second); err == nil {
		t.Error("a host that does not exist was cut off")
	}
}

// TestUnfit: what one end does not support the other one does. If neither does, it is reported
// in advance, as permanent.
func TestUnfit(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	cut := framework.Impairment{Cut: true}
	both := []framework.Link{link(node1), link(node2)}
	without := func(host int) {
		t.Helper()
		l.nodes[host].kill()
		l.nodes[host].config.Device = ""
		l.nodes[host].up()
	}
	without(node2)
	must(t, l.network.Meet(t.Context()))
	if err := l.network.CheckImpairment(t.Context(), both, cut); err != nil {
		t.Fatal(err)
	}
	handle := l.impair(cut, time.Hour, both...)
	if l.passes(node1) || l.passes(node2) {
		t.Error("a link of a node that cannot impair its own carries packets")
	}
	l.restore(handle)

	without(node1)
	err := l.network.CheckImpairment(t.Context(), both, cut)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "given no device") {
		t.Errorf("nobody can: %v", err)
	}
	if _, err := l.network.Impair(t.Context(), both, cut, time.Hour); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("nobody can, and it was tried: %v", err)
	}
	l.nodes[node2].kill() // which may come back, and be able to
	if err := l.network.CheckImpairment(t.Context(), both, cut); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("one does not answer: %v", err)
	}
}
