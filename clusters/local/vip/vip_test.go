package vip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

func TestElection(t *testing.T) {
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	// The second of three, one check a second, two may fail.
	second := func() *election {
		return &election{rank: 1, nodes: 3, interval: time.Second, fall: 2, heard: began}
	}
	for _, tc := range []struct {
		name string
		do   func(*election)
		at   float64
		want bool
	}{
		{"not ready", func(*election) {}, 100, false},
		{"nobody holds it, not yet its turn", func(e *election) { e.check(true, at(0)) }, 2.3, false},
		{"no instance holds it", func(e *election) { e.check(true, at(0)) }, 2.4, true},
		{"ready late, not yet its turn", func(e *election) { e.check(true, at(10)) }, 10.3, false},
		{"ready late", func(e *election) { e.check(true, at(10)) }, 10.4, true},
		{"another one holds it", func(e *election) { e.check(true, at(0)); e.hear(2, true, at(9)) }, 11, false},
		{"the holder falls silent", func(e *election) { e.check(true, at(0)); e.hear(2, true, at(9)) }, 11.4, true},
		{"the holder gives it up", func(e *election) { e.check(true, at(0)); e.hear(0, true, at(9)); e.hear(0, false, at(9.5)) }, 9.9, true},
		{"its own server is down", func(e *election) { e.check(true, at(0)); e.pass(at(5)); e.check(false, at(6)) }, 20, false},
		{"of two, the first stays", func(e *election) { e.check(true, at(0)); e.pass(at(5)); e.hear(2, true, at(6)) }, 6.1, true},
		{"of two, the second goes", func(e *election) { e.check(true, at(0)); e.pass(at(5)); e.hear(0, true, at(6)) }, 6.1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := second()
			tc.do(e)
			e.pass(at(tc.at))
			if e.holder != tc.want {
				t.Errorf("after %vs: holder is %v", tc.at, e.holder)
			}
		})
	}
}

// shelf is a place that only remembers.
type shelf struct {
	held             atomic.Bool
	taken, announced atomic.Int64
	stuck            sync.Mutex // held while the address cannot be released
}

func (s *shelf) Take() error     { s.taken.Add(1); s.held.Store(true); return nil }
func (s *shelf) Drop() error     { s.stuck.Lock(); defer s.stuck.Unlock(); s.held.Store(false); return nil }
func (s *shelf) Announce() error { s.announced.Add(1); return nil }

// lab is three nodes on the loopback.
type lab struct {
	places [3]*shelf
	ready  [3]atomic.Bool
	status [3]string
	stop   [3]context.CancelFunc
}

func newLab(t *testing.T) *lab {
	l := &lab{}
	config := Config{Address: netip.MustParseAddr("127.0.0.99"),
		HealthCheck: clusters.HealthCheck{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond, Fall: 3, Rise: 1}}
	for i := range l.places {
		config.Nodes = append(config.Nodes, Node{fmt.Sprintf("node-%d", i+1), netip.AddrFrom4([4]byte{127, 77, 0, byte(11 + i)})})
	}
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	for i := range l.places {
		l.ready[i].Store(true)
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !l.ready[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(server.Close)
		c := config
		c.Name, c.Check = c.Nodes[i].Name, server.URL+"/readyz"
		c.Status = net.JoinHostPort(c.Nodes[i].Address.String(), "8404")
		l.places[i], l.status[i] = &shelf{}, c.Status
		var ctx context.Context
		ctx, l.stop[i] = context.WithCancel(context.Background())
		t.Cleanup(l.stop[i])
		work.Go(func() {
			if err := run(ctx, c, l.places[i]); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
	return l
}

// holders returns the nodes that hold the address, from 1.
func (l *lab) holders() (all []int) {
	for i, p := range l.places {
		if p.held.Load() {
			all = append(all, i+1)
		}
	}
	return all
}

func (l *lab) await(t *testing.T, what string, want ...int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if slices.Equal(l.holders(), want) {
			return
		}
	}
	t.Fatalf("%s: it is held by %v, want %v", what, l.holders(), want)
}

// TestMoves is slow to be safe on a busy machine: nothing but the end states counts.
func TestMoves(t *testing.T) {
	l := newLab(t)
	l.await(t, "at the beginning", 1)
	l.ready[0].Store(false)
	l.await(t, "the first one's server is down", 2)
	if l.places[1].announced.Load() == 0 {
		t.Error("the new holder did not announce itself")
	}
	l.ready[0].Store(true)
	time.Sleep(time.Second)
	l.await(t, "a node that is back does not take it back", 2)
	l.stop[1]()
	l.await(t, "the holder ends", 1)

	if status := l.page(t, 0); !status.Holder || !status.Ready || status.LastCheck != "ok" || status.Since.IsZero() {
		t.Errorf("its status is %+v", status)
	}
}

func (l *lab) page(t *testing.T, node int) (status Status) {
	t.Helper()
	resp, err := http.Get("http://" + l.status[node])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return status
}

// TestReportsUntilReleased: a node holds the address until it has released it.
func TestReportsUntilReleased(t *testing.T) {
	l := newLab(t)
	l.await(t, "at the beginning", 1)
	l.places[0].stuck.Lock()
	l.ready[0].Store(false)
	l.await(t, "the first one's server is down, and it cannot release the address", 1, 2)
	if status := l.page(t, 0); !status.Holder {
		t.Errorf("its status is %+v", status)
	}
	released := time.Now()
	l.places[0].stuck.Unlock()
	l.await(t, "it releases the address", 2)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		status := l.page(t, 0)
		if !status.Holder && status.Since.After(released) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("its status is %+v", status)
		}
	}
}

// TestTwoHolders: the worse of two holders, such as one that was suspended while another one took
// over, gives way, and no third node takes the address: the other one has it.
func TestTwoHolders(t *testing.T) {
	const interval = 200 * time.Millisecond
	config := Config{HealthCheck: clusters.HealthCheck{Interval: interval, Fall: 10}}
	for i := range 3 {
		config.Nodes = append(config.Nodes, Node{fmt.Sprintf("node-%d", i+1), netip.AddrFrom4([4]byte{127, 77, 0, byte(21 + i)})})
	}
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var places [3]shelf
	for _, rank := range []int{1, 0, 2} {
		n := config.Nodes[rank]
		socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.Address, Port)))
		if err != nil {
			t.Fatal(err)
		}
		c := config
		c.Name = n.Name
		k := &keeper{config: c, place: &places[rank], socket: socket, election: election{rank: rank, nodes: len(config.Nodes),
			interval: interval, fall: config.HealthCheck.Fall, ready: true, holder: rank < 2, heard: time.Now()}}
		work.Go(k.hear)
		work.Go(func() {
			if err := errors.Join(k.hold(ctx), socket.Close()); err != nil {
				t.Error(err)
			}
		})
		for deadline := time.Now().Add(20 * time.Second); rank == 1 && !places[rank].held.Load() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(10 * interval)
	for i, want := range []int64{1, 1, 0} {
		if taken := places[i].taken.Load(); taken != want || places[i].held.Load() != (i == 0) {
			t.Errorf("node-%d took it %d times, want %d; it holds it: %t", i+1, taken, want, places[i].held.Load())
		}
	}
	stop()
	work.Wait()
}

func TestAnnouncement(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	got := announcement(mac, netip.MustParseAddr("10.77.0.10"))
	want := slices.Concat([]byte{255, 255, 255, 255, 255, 255}, mac, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1},
		mac, []byte{10, 77, 0, 10}, make([]byte, 6), []byte{10, 77, 0, 10})
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}
