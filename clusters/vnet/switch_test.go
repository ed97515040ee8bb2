package vnet

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// eachBackend runs a test on both ways to a namespace.
func eachBackend(t *testing.T, test func(t *testing.T, backend Backend)) {
	for _, backend := range []Backend{TAP, Packet} {
		t.Run(string(backend), func(t *testing.T) { test(t, backend) })
	}
}

func TestTrafficAcross(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b", "c")
		a, b := l.machines["a"], l.machines["b"]
		if got := a.ping(b.addr, 3, time.Second); got != 3 {
			t.Errorf("%d of 3 pings answered", got)
		}
		if got := a.ping(b.ip6, 3, time.Second); got != 3 {
			t.Errorf("%d of 3 IPv6 pings answered", got)
		}
		for _, addr := range []struct{ name string }{{"4"}, {"6"}} {
			to := b.addr
			if addr.name == "6" {
				to = b.ip6
			}
			port := uint16(1000)
			if addr.name == "6" {
				port = 1001
			}
			b.echo(port)
			c := a.mustDial(to, port)
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB: large segments
			go c.Write(sent)
			got := make([]byte, len(sent))
			c.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.ReadFull(c, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, sent) {
				t.Error("what came back is not what was sent")
			}
		}
		for _, s := range l.Links() {
			if s.Packets+s.Duplicated != s.Delivered+s.Dropped+s.Queued {
				t.Errorf("counters of %s to %s drift: %+v", s.From, s.To, s.LinkCounters)
			}
			t.Logf("%s→%s %+v", s.From, s.To, s.LinkCounters)
		}
		if c := l.LinkCounters("a", "b"); c.Bytes < 2<<20 || c.Dropped != 0 {
			t.Errorf("counters of a to b: %+v", c)
		}
	})
}
