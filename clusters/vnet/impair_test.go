package vnet

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// datagrams sends numbered UDP packets from one machine to another, and returns
// the numbers in the order in which they came, until as many as are expected
// have come or none came for a while.
func datagrams(t *testing.T, from, to *machine, port uint16, count, expected int) (got []int) {
	t.Helper()
	in, out := to.udp(port), from.udp(0)
	defer in.Close()
	defer out.Close()
	_ = in.SetReadBuffer(4 << 20)
	target := &net.UDPAddr{IP: to.addr.AsSlice(), Port: int(port)}
	go func() {
		buf := make([]byte, 100)
		for i := range count {
			binary.BigEndian.PutUint32(buf, uint32(i))
			_, _ = out.WriteToUDP(buf, target)
			if i%50 == 49 {
				time.Sleep(time.Millisecond) // spare the receiver's buffer
			}
		}
	}()
	buf := make([]byte, 100)
	for expected == 0 || len(got) < expected {
		quiet := 300 * time.Millisecond
		if expected > 0 {
			quiet = 5 * time.Second
		}
		in.SetReadDeadline(time.Now().Add(quiet))
		n, _, err := in.ReadFromUDP(buf)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			return got
		}
		if n == len(buf) {
			got = append(got, int(binary.BigEndian.Uint32(buf)))
		}
	}
	return got
}

func TestOneWayCut(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b", "c")
		a, b, c := l.machines["a"], l.machines["b"], l.machines["c"]
		// Learn the addresses first: a cut holds ARP back as well.
		if a.ping(b.addr, 1, 5*time.Second)+b.ping(a.addr, 1, 5*time.Second)+a.ping(c.addr, 1, 5*time.Second) != 3 {
			t.Fatal("no answer")
		}
		cut := l.impair(Impairment{Cut: true}, Link{From: "a", To: "b"})
		before := l.LinkCounters("a", "b").Delivered
		if got := datagrams(t, a, b, 9, 100, 0); len(got) != 0 {
			t.Errorf("%d packets came through the cut", len(got))
		}
		if got := datagrams(t, b, a, 9, 100, 100); len(got) != 100 {
			t.Errorf("%d of 100 packets came the other way", len(got))
		}
		if got := datagrams(t, a, c, 9, 100, 100); len(got) != 100 {
			t.Errorf("%d of 100 packets came to a third machine", len(got))
		}
		if got := l.LinkCounters("a", "b").Delivered; got != before {
			t.Errorf("%d packets were delivered on a link that was cut", got-before)
		}
		if got := l.counters(cut); got.Dropped < 100 || got.Dropped != got.Matched {
			t.Errorf("counters of the cut %+v", got)
		}
		l.Remove(cut)
		if got := datagrams(t, a, b, 9, 100, 100); len(got) != 100 {
			t.Errorf("%d of 100 packets came after the cut", len(got))
		}
		checkBooks(t, l.Switch)
	})
}

func TestCutOfPorts(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	b.echo(2379)
	b.echo(2380)
	both := []Link{{From: "a", To: "b", Ports: []uint16{2380}}, {From: "b", To: "a", Ports: []uint16{2380}}}
	client, peer := a.mustDial(b.addr, 2379), a.mustDial(b.addr, 2380)
	cut := l.impair(Impairment{Cut: true}, both...)
	checkStream(t, client, 1<<16)
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	peer.SetDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v on a cut port, want silence", err)
	}
	if _, err := a.dial(b.addr, 2380, 300*time.Millisecond); err == nil {
		t.Error("a new connection to the cut port succeeds")
	}
	if got := l.counters(cut); got.Dropped < 2 || got.Dropped != got.Matched {
		t.Errorf("counters of the cut %+v", got)
	}
	l.Remove(cut)
	peer.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
		t.Errorf("the connection has not survived the cut: %v", err)
	}
	// The connection attempt that failed above may have left a SYN behind, so
	// the counters may have grown, but not after the removal.
	settled := l.counters(cut)
	checkStream(t, a.mustDial(b.addr, 2380), 1<<16)
	if got := l.counters(cut); got != settled {
		t.Errorf("a removed rule counts: %+v, %+v", settled, got)
	}
}

func TestLoss(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		const n = 3000
		l := newLab(t, Config{Seed: 7}, backend, "a", "b")
		a, b := l.machines["a"], l.machines["b"]
		loss := l.impair(Impairment{Loss: 0.1}, Link{From: "a", To: "b", Ports: []uint16{9}})
		got := datagrams(t, a, b, 9, n, 0)
		c := l.counters(loss)
		if c.Matched != n || uint64(len(got)) != n-c.Dropped {
			t.Errorf("%d of %d packets came, counters %+v", len(got), n, c)
		}
		if want, sigma := 0.1*n, math.Sqrt(n*0.1*0.9); math.Abs(float64(c.Dropped)-want) > 5*sigma {
			t.Errorf("%d packets lost, want %.0f ± %.0f", c.Dropped, want, 5*sigma)
		}
		checkBooks(t, l.Switch)
	})
}

// TestLossOfTCP checks that with offload on, single packets are lost and not
// segments of 64 KiB, and that TCP gets over it.
func TestLossOfTCP(t *testing.T) {
	l := newLab(t, Config{Seed: 7}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	b.echo(1000)
	c := a.mustDial(b.addr, 1000)
	loss := l.impair(Impairment{Loss: 0.01}, Link{From: "a", To: "b"})
	const size = 4 << 20
	checkStream(t, c, size)
	got := l.counters(loss)
	if got.Matched < size/1460 {
		t.Errorf("%d packets for %d bytes: large segments were counted as one", got.Matched, size)
	}
	want := float64(got.Matched) * 0.01
	if math.Abs(float64(got.Dropped)-want) > 5*math.Sqrt(want) {
		t.Errorf("%d of %d packets lost, want %.0f ± %.0f", got.Dropped, got.Matched, want, 5*math.Sqrt(want))
	}
}

func TestDelay(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b")
		a, b := l.machines["a"], l.machines["b"]
		b.echo(1000)
		c := a.mustDial(b.addr, 1000)
		trip := func() (whole, own time.Duration) {
			var all, timely []time.Duration
			for range 5 {
				start := time.Now()
				timely = append(timely, timed(func() { checkStream(t, c, 15) }))
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			slices.Sort(timely)
			return all[len(all)/2], timely[len(timely)/2]
		}
		there := l.impair(Impairment{Delay: 50 * time.Millisecond}, Link{From: "a", To: "b"})
		both := l.impair(Impairment{Delay: 25 * time.Millisecond}, Link{From: "a", To: "b"}, Link{From: "b", To: "a"})
		for _, step := range []struct {
			remove RuleID
			want   time.Duration
		}{{0, 100 * time.Millisecond}, {there, 50 * time.Millisecond}, {both, 0}} {
			l.Remove(step.remove)
			if whole, own := trip(); whole < step.want || own > step.want+40*time.Millisecond {
				t.Errorf("median round trip %v, %v without what the machine was late by, want %v", whole, own, step.want)
			}
		}
		checkBooks(t, l.Switch)
	})
}

func TestDuplicateReorderCorrupt(t *testing.T) {
	l := newLab(t, Config{Seed: 3}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	link := Link{From: "a", To: "b", Ports: []uint16{9}}
	const n = 500

	twice := l.impair(Impairment{Duplicate: 1}, link)
	got := datagrams(t, a, b, 9, n, 2*n)
	l.Remove(twice)
	if len(got) != 2*n || l.counters(twice).Duplicated != n {
		t.Errorf("%d packets from %d, counters %+v", len(got), n, l.counters(twice))
	}

	mixed := l.impair(Impairment{Reorder: 0.1}, link)
	got = datagrams(t, a, b, 9, n, n)
	l.Remove(mixed)
	overtaken := 0
	for i := 1; i < len(got); i++ {
		if got[i] < got[i-1] {
			overtaken++
		}
	}
	if len(got) != n || overtaken == 0 || l.counters(mixed).Reordered == 0 {
		t.Errorf("%d of %d packets, %d overtaken, counters %+v", len(got), n, overtaken, l.counters(mixed))
	}

	broken := l.impair(Impairment{Corrupt: 1}, link)
	got = datagrams(t, a, b, 9, n, 0)
	l.Remove(broken)
	if len(got) != 0 || l.counters(broken).Corrupted != n {
		t.Errorf("%d corrupt packets passed the checksum, counters %+v", len(got), l.counters(broken))
	}
	checkBooks(t, l.Switch)
}

// TestRateOfTCP sends for a while over a slow link. The upper limit is firm;
// the lower one leaves room for a busy machine.
func TestRateOfTCP(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	b.echo(1000)
	c := a.mustDial(b.addr, 1000)
	const rate = 50_000_000
	l.impair(Impairment{Rate: rate}, Link{From: "a", To: "b"})
	const size = 5 << 20
	start := time.Now()
	checkStream(t, c, size)
	got := float64(size) * 8 / time.Since(start).Seconds()
	if got > rate || got < rate/4 {
		t.Errorf("%.1f Mbit/s over a link of %.1f", got/1e6, rate/1e6)
	}
	t.Logf("%.1f Mbit/s over a link of %.1f", got/1e6, rate/1e6)
}

// TestCutTakesHoldAtOnce cuts a busy link: when Impair has returned, nothing
// more is delivered, and it returns soon.
func TestCutTakesHoldAtOnce(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b")
		a, b := l.machines["a"], l.machines["b"]
		b.echo(1000)
		c := a.mustDial(b.addr, 1000)
		go io.Copy(io.Discard, c)
		go func() {
			for buf := make([]byte, 1<<17); ; {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		}()
		both := []Link{{From: "a", To: "b"}, {From: "b", To: "a"}}
		var took []time.Duration
		for range 10 {
			for start := l.LinkCounters("a", "b").Delivered; l.LinkCounters("a", "b").Delivered < start+1000; {
				time.Sleep(time.Millisecond)
			}
			var cut RuleID
			took = append(took, timed(func() { cut = l.impair(Impairment{Cut: true}, both...) }))
			before := [2]uint64{l.LinkCounters("a", "b").Delivered, l.LinkCounters("b", "a").Delivered}
			time.Sleep(2 * time.Millisecond)
			if after := [2]uint64{l.LinkCounters("a", "b").Delivered, l.LinkCounters("b", "a").Delivered}; after != before {
				t.Fatalf("delivered %v when Impair returned, %v later", before, after)
			}
			l.Remove(cut)
		}
		slices.Sort(took)
		t.Logf("Impair on a busy switch took %v, at most %v", took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > 50*time.Millisecond {
			t.Errorf("Impair on a busy switch took %v", took[len(took)/2])
		}
	})
}
