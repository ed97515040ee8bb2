package vnet

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// segment is what a test looks at in a TCP segment.
type segment struct {
	from, to      address
	source, dest  uint16
	sequence, ack uint32
	flags         uint8
}

// segmentOf reads a segment and checks its lengths and checksums.
func segmentOf(t *testing.T, buf []byte) segment {
	t.Helper()
	frame := buf[headerLen:]
	p := parse(frame)
	if !p.isTCP(frame) {
		t.Fatalf("no TCP segment: % x", frame)
	}
	ip, tcp := frame[p.network:], frame[p.transport:]
	switch p.version {
	case 4:
		if got := int(binary.BigEndian.Uint16(ip[2:])); got != len(ip) {
			t.Errorf("IPv4 length %d of %d", got, len(ip))
		}
		if got := fold(sum(0, ip[:p.transport-p.network])); got != 0xffff {
			t.Errorf("IPv4 checksum is off: %x", got)
		}
	case 6:
		if got := int(binary.BigEndian.Uint16(ip[4:])); got != len(ip)-40 {
			t.Errorf("IPv6 length %d of %d", got, len(ip)-40)
		}
	}
	if got := fold(sum(pseudoHeader(frame, p), tcp)); got != 0xffff {
		t.Errorf("TCP checksum is off: %x", got)
	}
	return segment{address(frame[6:12]), address(frame[0:6]), p.source, p.destination,
		binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:]), tcp[13]}
}

func TestResetSegments(t *testing.T) {
	const first = 0xfffffff0 // the sequence number of frameSpec
	both := []segment{
		{macB, macA, 2380, 40000, 0x01020304, 0, tcpRST},
		{macA, macB, 40000, 2380, first, 0x01020304, tcpRST | tcpACK},
	}
	for _, tc := range []struct {
		name   string
		change func(*frameSpec)
		want   []segment
	}{
		{"data", func(*frameSpec) {}, both},
		{"large segment", func(f *frameSpec) { f.payload, f.gsoSize = 5000, 1448 }, both},
		{"VLAN", func(f *frameSpec) { f.vlan = true }, both},
		{"SYN and ACK", func(f *frameSpec) { f.tcpFlags, f.payload = tcpSYN|tcpACK, 0 }, both},
		{"SYN", func(f *frameSpec) { f.tcpFlags, f.payload = tcpSYN, 0 },
			[]segment{{macB, macA, 2380, 40000, 0, first + 1, tcpRST | tcpACK}}},
		{"SYN with data", func(f *frameSpec) { f.tcpFlags = tcpSYN },
			[]segment{{macB, macA, 2380, 40000, 0, (first + 101) & 0xffffffff, tcpRST | tcpACK}}},
		{"FIN without ACK", func(f *frameSpec) { f.tcpFlags = tcpFIN },
			[]segment{{macB, macA, 2380, 40000, 0, (first + 101) & 0xffffffff, tcpRST | tcpACK}}},
	} {
		for _, ips := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
			t.Run(tc.name+" "+ips[0], func(t *testing.T) {
				d := newDesk(t, 0, "a", "b")
				d.learn(macB, d.parties["b"])
				id := d.put(Impairment{Reset: true}, 2380)
				f := frameSpec{src: macA, dst: macB, from: ips[0], to: ips[1], protocol: protoTCP, sport: 40000, dport: 2380, payload: 100, tcpFlags: tcpACK}
				tc.change(&f)
				buf := f.build()
				p := parse(buf[headerLen:])
				binary.BigEndian.PutUint32(buf[headerLen+p.transport+8:], 0x01020304)
				packets, _ := weigh(buf)
				d.receive(d.parties["a"].port, buf)
				var got []segment
				for _, name := range []string{"a", "b"} {
					for _, r := range d.out[name].frames {
						got = append(got, segmentOf(t, r.buf))
					}
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("got  %+v\nwant %+v", got, tc.want)
				}
				if c := d.count(id); c != (RuleCounters{Matched: packets, Dropped: packets, Resets: uint64(len(tc.want))}) {
					t.Errorf("counters %+v", c)
				}
				d.settle()
			})
		}
	}
}

// TestResetReceiver makes the segment for the receiver of a packet of which little but
// the headers is there.
func TestResetReceiver(t *testing.T) {
	for _, ips := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		f := frameSpec{src: macA, dst: macB, from: ips[0], to: ips[1], protocol: protoTCP, sport: 40000, dport: 2380, payload: 100, tcpFlags: tcpACK}
		frame := f.build()[headerLen:]
		out := ResetReceiver(frame[etherHeaderLen : len(frame)-90])
		buf := append(make([]byte, headerLen), frame[:etherHeaderLen]...)
		got := segmentOf(t, append(buf, out...))
		if got.source != 40000 || got.dest != 2380 || got.sequence != 0xfffffff0 || got.flags != tcpRST|tcpACK {
			t.Errorf("from %s: %+v", ips[0], got)
		}
		f.tcpFlags = tcpSYN
		if out := ResetReceiver(f.build()[headerLen+etherHeaderLen:]); out != nil {
			t.Errorf("from %s: the first segment of a connection is answered: % x", ips[0], out)
		}
		f.protocol = protoUDP
		if out := ResetReceiver(f.build()[headerLen+etherHeaderLen:]); out != nil {
			t.Errorf("from %s: UDP is answered: % x", ips[0], out)
		}
	}
	for _, b := range [][]byte{nil, {0x45}, {0x60, 0, 0}} {
		if out := ResetReceiver(b); out != nil {
			t.Errorf("% x is answered: % x", b, out)
		}
	}
}

func TestResetLeavesTheRestAlone(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	id := d.put(Impairment{Reset: true})
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP})
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, tcpFlags: tcpRST | tcpACK})
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, fragment: 7})
	if got := len(d.out["b"].frames); got != 3 || len(d.out["a"].frames) != 0 || d.count(id) != (RuleCounters{}) {
		t.Errorf("%d of 3 frames, %d answers, %+v", got, len(d.out["a"].frames), d.count(id))
	}
	// A cut of the way back is silence for the answer as well.
	d.learn(macB, d.parties["b"])
	cut, err := d.Impair(Rule{Links: []Link{{From: "b", To: "a"}}, Impairment: Impairment{Cut: true}})
	if err != nil {
		t.Fatal(err)
	}
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, tcpFlags: tcpACK})
	if len(d.out["a"].frames) != 0 || d.count(cut).Dropped != 1 || len(d.out["b"].frames) != 4 {
		t.Errorf("%d answers, cut %+v", len(d.out["a"].frames), d.count(cut))
	}
	d.settle()
}

func TestEstablished(t *testing.T) {
	old := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 40000, dport: 2380, tcpFlags: tcpACK}
	syn, data := old, old
	syn.sport, data.sport, syn.tcpFlags = 40001, 40001, tcpSYN
	d := newDesk(t, 0, "a", "b")
	id := d.put(Impairment{Cut: true, Established: true})
	expect := func(step string, f frameSpec, passes bool) {
		t.Helper()
		before := len(d.out["b"].frames)
		d.send(f)
		if got := len(d.out["b"].frames) > before; got != passes {
			t.Errorf("%s: passes is %v, want %v", step, got, passes)
		}
	}
	expect("a connection that was there", old, false)
	expect("a connection whose SYN was not seen", data, false)
	expect("a SYN", syn, true)
	expect("its connection", data, true)
	expect("a connection that was there, again", old, false)
	expect("no TCP", frameSpec{}, true)
	syn.sport, syn.tcpFlags, data.sport = 40002, tcpSYN|tcpACK, 40002
	expect("the answer to a SYN that went the other way", syn, true)
	expect("its connection", data, true)
	back := data
	back.from, back.to, back.sport, back.dport = data.to, data.from, data.dport, data.sport
	expect("the same connection, seen from its other end", back, true)
	if c := d.count(id); c.Matched != 3 || c.Dropped != 3 {
		t.Errorf("counters %+v", c)
	}
	d.settle()
}

func TestConnectionsAreBounded(t *testing.T) {
	var s connections
	for i := range connectionLimit + 10 {
		s.add(connection{{port: uint16(i)}, {port: uint16(i >> 16), addr: [16]byte{1}}})
		s.add(connection{{port: uint16(i)}, {port: uint16(i >> 16), addr: [16]byte{1}}})
	}
	if len(s.known) != connectionLimit || len(s.order) != connectionLimit {
		t.Errorf("%d known, %d in order", len(s.known), len(s.order))
	}
	if _, ok := s.known[connection{{port: 9}, {addr: [16]byte{1}}}]; ok {
		t.Error("the oldest was kept")
	}
	if _, ok := s.known[connection{{port: 10}, {addr: [16]byte{1}}}]; !ok {
		t.Error("more than the oldest were forgotten")
	}
}

// TestResetOfRealConnections resets what two kernels hold, in both families.
func TestResetOfRealConnections(t *testing.T) {
	for _, way := range []string{"both ways", "one way", "established only"} {
		for _, v6 := range []bool{false, true} {
			t.Run(way+map[bool]string{false: ", IPv4", true: ", IPv6"}[v6], func(t *testing.T) {
				l := newLab(t, Config{}, Auto, "a", "b")
				a, b := l.machines["a"], l.machines["b"]
				to := b.addr
				if v6 {
					to = b.ip6
				}
				listener := b.listen(2380)
				client, server := accept(t, a, listener, to)
				links := []Link{{From: "a", To: "b", Ports: []uint16{2380}}, {From: "b", To: "a", Ports: []uint16{2380}}}
				if way == "one way" {
					links = links[:1]
				}
				id := l.impair(Impairment{Reset: true, Established: way == "established only"}, links...)
				if _, err := client.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				for name, c := range map[string]net.Conn{"client": client, "server": server} {
					c.SetDeadline(time.Now().Add(20 * time.Second))
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("%s got %v, want a reset", name, err)
					}
				}
				if c := l.counters(id); c.Resets < 2 || c.Dropped == 0 || c.Dropped != c.Matched {
					t.Errorf("counters %+v", c)
				}
				switch way {
				case "established only":
					client, server = accept(t, a, listener, to)
					exchange(t, client, server)
				default:
					if _, err := a.dial(to, 2380, 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("a new connection: %v, want it refused", err)
					}
				}
				l.Remove(id)
				client, server = accept(t, a, listener, to)
				exchange(t, client, server)
				checkBooks(t, l.Switch)
			})
		}
	}
}

func accept(t *testing.T, from *machine, l net.Listener, to netip.Addr) (client, server net.Conn) {
	t.Helper()
	client = from.mustDial(to, 2380)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// exchange sends a byte each way.
func exchange(t *testing.T, x, y net.Conn) {
	t.Helper()
	for _, ends := range [][2]net.Conn{{x, y}, {y, x}} {
		ends[1].SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := ends[0].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ends[1], make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBlackHoleOfEstablishedConnections has the old connection silent, and a
// new one at work, at the same time; afterwards both work.
func TestBlackHoleOfEstablishedConnections(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	listener := b.listen(2380)
	client, server := accept(t, a, listener, b.addr)
	exchange(t, client, server)
	hole := l.impair(Impairment{Cut: true, Established: true}, Link{From: "a", To: "b"}, Link{From: "b", To: "a"})
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	exchange2, server2 := accept(t, a, listener, b.addr)
	exchange(t, exchange2, server2)
	server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("an established connection goes on")
	}
	l.Remove(hole)
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Errorf("the old connection has not survived: %v", err)
	}
	exchange(t, exchange2, server2)
}
