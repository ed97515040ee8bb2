package vnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// eachBackend runs a test on both ways to a namespace.
func eachBackend(t *testing.T, test func(t *testing.T, backend Backend)) {
	for _, backend := range []Backend{TAP, Packet} {
		t.Run(string(backend), func(t *testing.T) { test(t, backend) })
	}
}

// checkStream sends n bytes to a TCP port that echoes, and compares.
func checkStream(t *testing.T, c net.Conn, n int) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789abcde"), n/15)
	go c.Write(sent)
	got := make([]byte, len(sent))
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if k, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("after %d of %d bytes: %v", k, len(sent), err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what came back is not what was sent")
	}
}

func checkBooks(t *testing.T, s *Switch) {
	t.Helper()
	for _, l := range s.Links() {
		if l.Packets+l.Duplicated != l.Delivered+l.Dropped+l.Queued {
			t.Errorf("counters of %s to %s drift: %+v", l.From, l.To, l.LinkCounters)
		}
	}
}

func TestTrafficAcross(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b", "c")
		a, b := l.machines["a"], l.machines["b"]
		b.echo(1000)
		for _, to := range []netip.Addr{b.addr, b.ip6} {
			if got := a.ping(to, 3, 2*time.Second); got != 3 {
				t.Errorf("%d of 3 pings to %s answered", got, to)
			}
			checkStream(t, a.mustDial(to, 1000), 1<<20)
		}
		checkBooks(t, l.Switch)
		if c := l.LinkCounters("a", "b"); c.Bytes < 2<<20 || c.Dropped != 0 || c.Packets < c.Bytes/1514 {
			t.Errorf("counters of a to b: %+v", c)
		}
		if c := l.LinkCounters("a", "c"); c.Packets > 20 {
			t.Errorf("traffic between a and b went to c as well: %+v", c)
		}
	})
}

// TestFirstPacketArrives checks that a port works when Attach returns: a lost
// ARP request would cost a second.
func TestFirstPacketArrives(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		for range 5 {
			l := newLab(t, Config{}, backend, "a", "b")
			took := timed(func() {
				if got := l.machines["a"].ping(l.machines["b"].addr, 1, 5*time.Second); got != 1 {
					t.Fatal("no answer")
				}
			})
			if took > 700*time.Millisecond {
				t.Errorf("the first answer took %v", took)
			}
		}
	})
}

// TestPlainPorts joins two switches by a socket that carries plain frames, so
// that large segments must be cut up and checksums completed on the way.
func TestPlainPorts(t *testing.T) {
	left, right := newLab(t, Config{}, Auto, "a"), newLab(t, Config{}, Auto, "x", "b")
	ends := socketPair(t)
	for i, s := range []*Switch{left.Switch, right.Switch} {
		if _, err := s.Attach(PortConfig{Name: "uplink", Backend: Socket, Socket: ends[i]}); err != nil {
			t.Fatal(err)
		}
	}
	a, b := left.machines["a"], right.machines["b"]
	b.echo(1000)
	for _, to := range []netip.Addr{b.addr, b.ip6} {
		checkStream(t, a.mustDial(to, 1000), 1<<20)
	}
	if c := left.LinkCounters("a", "uplink"); c.Packets < 2<<20/1500 {
		t.Errorf("counters of a to uplink: %+v", c)
	}
}

func socketPair(t *testing.T) [2]*os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*os.File
	for i, fd := range fds {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20)
		ends[i] = os.NewFile(uintptr(fd), "socket pair")
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends
}

// TestDeadNeighbour checks that a port that is not read does not block other ports.
func TestDeadNeighbour(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b")
	ends := socketPair(t)
	if _, err := l.Attach(PortConfig{Name: "deaf", Backend: Socket, Socket: ends[0]}); err != nil {
		t.Fatal(err)
	}
	a, b := l.machines["a"], l.machines["b"]
	c := a.udp(1000)
	broadcast := &net.UDPAddr{IP: net.IPv4(10, 77, 0, 255), Port: 1000}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1) })
	if err != nil {
		t.Fatal(err)
	}
	for l.LinkCounters("a", "deaf").Dropped == 0 {
		if _, err := c.WriteToUDP(make([]byte, 1400), broadcast); err != nil {
			t.Fatal(err)
		}
	}
	b.echo(1001)
	checkStream(t, a.mustDial(b.addr, 1001), 1<<18)

	// The other end goes away: the switch stops reading from the port, and the rest continues.
	ends[1].Close()
	deaf := l.ports[l.parties["deaf"].port.id]
	polltest.Until(t, "the port notices that its socket is closed", deaf.lost)
	checkStream(t, a.mustDial(b.addr, 1001), 1<<18)
}

func TestDeviceDeletedUnderThePort(t *testing.T) {
	l := newLab(t, Config{}, TAP, "a", "b")
	b := l.machines["b"]
	err := withNetlink(b.ns, func(h *netlink.Handle) error {
		link, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		return h.LinkDel(link)
	})
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the port notices", b.port.lost)
	if err := b.port.Close(); err != nil {
		t.Fatal(err)
	}
	b.port = l.attach("b", b, Auto)
	if got := l.machines["a"].ping(b.addr, 1, 5*time.Second); got != 1 {
		t.Error("no answer from the port attached anew")
	}
}

// TestUnplugIsSilent checks that the peer of a machine that loses power receives
// nothing, although the machine's kernel closes its connections.
func TestUnplugIsSilent(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b")
		a, b := l.machines["a"], l.machines["b"]
		server := b.listen(1000)
		c := a.mustDial(b.addr, 1000)
		s, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b.port.Unplug()
		s.(*net.TCPConn).SetLinger(0) // closing resets the connection
		s.Close()
		server.Close()
		c.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the peer of an unplugged machine got %v, want silence", err)
		}
		if l.LinkCounters("b", "a").Dropped == 0 {
			t.Error("the reset was not dropped")
		}
		if got := a.ping(b.addr, 1, 200*time.Millisecond); got != 0 {
			t.Error("an unplugged machine answers")
		}

		// Plugged in again, its kernel knows nothing of the connection.
		b.port.Plug()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("got %v from a machine that has forgotten the connection, want a reset", err)
		}
		checkBooks(t, l.Switch)
	})
}

// TestPowerCycle closes a port and attaches it again under its name: rules and
// counters continue.
func TestPowerCycle(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b", "c")
		a, b := l.machines["a"], l.machines["b"]
		if got := a.ping(b.addr, 1, 5*time.Second); got != 1 {
			t.Fatal("no answer")
		}
		cut := l.impair(Impairment{Cut: true}, Link{From: "a", To: "b"})
		before := l.LinkCounters("a", "b")
		b.port.Unplug()
		for range 2 {
			if err := b.port.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := devices(t, b); slices.Contains(got, "eth0") {
			t.Errorf("devices after Close: %v", got)
		}
		b.port.Plug() // of no use
		old := b.ns
		var err error
		if b.ns, err = newNetns(); err != nil {
			t.Fatal(err)
		}
		old.Close()
		t.Cleanup(func() { b.ns.Close() })
		b.port = l.attach("b", b, backend)
		if got := a.ping(b.addr, 1, 200*time.Millisecond); got != 0 {
			t.Error("the cut has not survived")
		}
		l.Remove(cut)
		if got := a.ping(b.addr, 3, 5*time.Second); got == 0 {
			t.Error("no answer after the cut")
		}
		if got := l.LinkCounters("a", "b"); got.Packets <= before.Packets || got.Delivered <= before.Delivered {
			t.Errorf("link counters %+v, before %+v", got, before)
		}
		checkBooks(t, l.Switch)
	})
}

// TestAddressMoves moves an address to another machine, which announces it.
func TestAddressMoves(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b", "c")
	a := l.machines["a"]
	vip := netip.MustParseAddr("10.77.0.200")
	set := func(m *machine, add bool) {
		t.Helper()
		err := withNetlink(m.ns, func(h *netlink.Handle) error {
			link, err := h.LinkByName("eth0")
			if err != nil {
				return err
			}
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(32, 32)}}
			if !add {
				return h.AddrDel(link, addr)
			}
			if err := h.AddrAdd(link, addr); err != nil {
				return err
			}
			return announce(link.Attrs().Index, link.Attrs().HardwareAddr, vip)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b", "c", "b"} {
		set(l.machines[name], true)
		before := l.LinkCounters("a", name).Delivered
		if got := a.ping(vip, 5, 2*time.Second); got == 0 {
			t.Errorf("no answer from %s at %s", name, vip)
		}
		if l.LinkCounters("a", name).Delivered == before {
			t.Errorf("nothing went to %s", name)
		}
		set(l.machines[name], false)
	}
}

// announce broadcasts a gratuitous ARP reply. Linux takes it for one only if it
// names the sender's address as the target's too.
func announce(index int, mac net.HardwareAddr, addr netip.Addr) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	frame := slices.Concat(all[:], mac, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2}, mac, addr.AsSlice(), mac, addr.AsSlice())
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index})
}
