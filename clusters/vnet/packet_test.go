package vnet

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// frameSpec describes a frame for tests.
type frameSpec struct {
	src, dst    address
	from, to    string // IP addresses
	protocol    uint8
	sport       uint16
	dport       uint16
	payload     int
	vlan        bool
	extensions  []byte // IPv6: numbers of extension headers, eight bytes each
	fragment    uint16 // offset in units of eight bytes
	more        bool   // more fragments follow
	gsoSize     uint16
	tcpFlags    uint8
	noTransport bool
}

var (
	macA = address{2, 0, 0, 0, 0, 0xa}
	macB = address{2, 0, 0, 0, 0, 0xb}
	macC = address{2, 0, 0, 0, 0, 0xc}
	all  = address{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// build makes a virtio-net header and a frame, with the transport checksum left
// open as a kernel leaves it to a card.
func (f frameSpec) build() []byte {
	buf := make([]byte, headerLen)
	buf = append(buf, f.dst[:]...)
	buf = append(buf, f.src[:]...)
	if f.vlan {
		buf = append(buf, 0x81, 0x00, 0x00, 0x07)
	}
	if f.from == "" {
		return append(buf, make([]byte, 2+f.payload)...)
	}
	from, to := netip.MustParseAddr(f.from), netip.MustParseAddr(f.to)
	transportLen := 8
	if f.protocol == protoTCP {
		transportLen = 20
	}
	if f.noTransport {
		transportLen = 0
	}
	p := packet{protocol: f.protocol}
	if from.Is4() {
		buf = append(buf, 0x08, 0x00)
		p.version, p.network = 4, len(buf)-headerLen
		ip := make([]byte, 20)
		ip[0], ip[8], ip[9] = 0x45, 64, f.protocol
		binary.BigEndian.PutUint16(ip[2:], uint16(20+transportLen+f.payload))
		binary.BigEndian.PutUint16(ip[4:], 0x1234)
		fragment := f.fragment
		if f.more {
			fragment |= 0x2000
		}
		binary.BigEndian.PutUint16(ip[6:], fragment)
		copy(ip[12:], from.AsSlice())
		copy(ip[16:], to.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], ^fold(sum(0, ip)))
		buf = append(buf, ip...)
	} else {
		buf = append(buf, 0x86, 0xdd)
		p.version, p.network = 6, len(buf)-headerLen
		ip := make([]byte, 40)
		ip[0], ip[6], ip[7] = 0x60, f.protocol, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(8*len(f.extensions)+transportLen+f.payload))
		copy(ip[8:], from.AsSlice())
		copy(ip[24:], to.AsSlice())
		for i, e := range f.extensions {
			next := f.protocol
			if i+1 < len(f.extensions) {
				next = f.extensions[i+1]
			}
			header := make([]byte, 8)
			header[0] = next
			switch e {
			case protoFragment:
				binary.BigEndian.PutUint16(header[2:], f.fragment<<3)
			case protoAuth:
				header[1] = 0 // (0 + 2) * 4 bytes
			}
			ip = append(ip, header...)
		}
		if len(f.extensions) > 0 {
			ip[6] = f.extensions[0]
		}
		buf = append(buf, ip...)
	}
	p.transport = len(buf) - headerLen
	transport := make([]byte, transportLen+f.payload)
	for i := range f.payload {
		transport[transportLen+i] = byte(i * 7)
	}
	buf = append(buf, transport...)
	if f.noTransport {
		return buf
	}
	transport = buf[headerLen+p.transport:]
	binary.BigEndian.PutUint16(transport, f.sport)
	binary.BigEndian.PutUint16(transport[2:], f.dport)
	h := header{flags: unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, csumStart: uint16(p.transport)}
	if f.protocol == protoTCP {
		binary.BigEndian.PutUint32(transport[4:], 0xfffffff0)
		transport[12], transport[13] = 5<<4, f.tcpFlags
		h.csumOffset = 16
	} else {
		binary.BigEndian.PutUint16(transport[4:], uint16(len(transport)))
		h.csumOffset = 6
	}
	binary.BigEndian.PutUint16(transport[h.csumOffset:], fold(pseudoHeader(buf[headerLen:], p)))
	if f.gsoSize > 0 {
		h.gsoSize = f.gsoSize
		switch {
		case f.protocol == protoUDP:
			h.gsoType = unix.VIRTIO_NET_HDR_GSO_UDP_L4
		case p.version == 6:
			h.gsoType = unix.VIRTIO_NET_HDR_GSO_TCPV6
		default:
			h.gsoType = unix.VIRTIO_NET_HDR_GSO_TCPV4
		}
	}
	h.encode(buf)
	return buf
}

func TestParse(t *testing.T) {
	v4 := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 40000, dport: 2379, payload: 10}
	v6 := frameSpec{from: "fd00::1", to: "fd00::2", protocol: protoUDP, sport: 53, dport: 40000, payload: 10}
	with := func(f frameSpec, change func(*frameSpec)) []byte {
		change(&f)
		return f.build()[headerLen:]
	}
	same := func(*frameSpec) {}
	for _, tc := range []struct {
		name  string
		frame []byte
		ports []uint16 // source and destination; nil if they cannot be told
		ip    uint8
	}{
		{"TCP", with(v4, same), []uint16{40000, 2379}, 4},
		{"UDP on IPv6", with(v6, same), []uint16{53, 40000}, 6},
		{"VLAN", with(v4, func(f *frameSpec) { f.vlan = true }), []uint16{40000, 2379}, 4},
		{"ARP", with(frameSpec{payload: 28}, same), nil, 0},
		{"ICMP", with(v4, func(f *frameSpec) { f.protocol, f.noTransport = 1, true }), nil, 4},
		{"first fragment", with(v4, func(f *frameSpec) { f.more = true }), []uint16{40000, 2379}, 4},
		{"later fragment", with(v4, func(f *frameSpec) { f.fragment = 100 }), nil, 4},
		{"IPv6 extension headers", with(v6, func(f *frameSpec) {
			f.extensions = []byte{protoHopByHop, protoRouting, protoAuth, protoDestOpts}
		}), []uint16{53, 40000}, 6},
		{"first IPv6 fragment", with(v6, func(f *frameSpec) { f.extensions = []byte{protoFragment} }), []uint16{53, 40000}, 6},
		{"later IPv6 fragment", with(v6, func(f *frameSpec) { f.extensions, f.fragment = []byte{protoFragment}, 9 }), nil, 6},
		{"cut off", with(v4, same)[:40], nil, 4},
		{"empty", nil, nil, 0},
		{"IPv4 that says 6", func() []byte { b := with(v4, same); b[14] = 0x65; return b }(), nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := parse(tc.frame)
			if p.version != tc.ip {
				t.Errorf("IP version %d, want %d", p.version, tc.ip)
			}
			if p.hasPorts() != (tc.ports != nil) {
				t.Fatalf("ports found: %v, want %v", p.hasPorts(), tc.ports)
			}
			if tc.ports != nil && !slices.Equal([]uint16{p.source, p.destination}, tc.ports) {
				t.Errorf("ports %d and %d, want %v", p.source, p.destination, tc.ports)
			}
		})
	}
}

// FuzzParse feeds the parser and all that builds on it with any frame that a
// machine could send.
func FuzzParse(f *testing.F) {
	for _, spec := range []frameSpec{
		{payload: 28},
		{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, payload: 5000, gsoSize: 1448},
		{from: "fd00::1", to: "fd00::2", protocol: protoUDP, payload: 5000, gsoSize: 1400},
		{from: "fd00::1", to: "fd00::2", protocol: protoTCP, payload: 90, extensions: []byte{protoHopByHop, protoFragment, protoAuth}},
	} {
		f.Add(spec.build())
	}
	f.Add(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, payload: 9, vlan: true, tcpFlags: tcpACK}.build())
	f.Fuzz(func(t *testing.T, buf []byte) {
		if len(buf) < headerLen+etherHeaderLen || len(buf) > bufferSize {
			return
		}
		frame := buf[headerLen:]
		p := parse(frame)
		if p.transport != 0 && (p.transport < p.network+20 || p.transport+8 > len(frame)) {
			t.Fatalf("transport header at %d of %d, network header at %d", p.transport, len(frame), p.network)
		}
		if seg, ok := segmentationOf(decodeHeader(buf), frame); ok {
			count, payload := 0, 0
			seg.segments(frame, nil, func(one []byte) {
				count++
				payload += len(one) - headerLen - seg.headers
				if !completeChecksum(slices.Clone(one)) {
					t.Fatal("the checksum of a segment cannot be completed")
				}
			})
			if count != seg.count || payload != len(frame)-seg.headers {
				t.Fatalf("%d segments with %d bytes, want %d with %d", count, payload, seg.count, len(frame)-seg.headers)
			}
		}
		packets, bytes := weigh(buf)
		if packets == 0 || bytes < uint64(len(frame)) {
			t.Fatalf("%d bytes weigh %d packets, %d bytes", len(frame), packets, bytes)
		}
		if p.isTCP(frame) {
			connectionOf(frame, &p)
			back, on := resetOf(buf, &p)
			for _, r := range [][]byte{back, on} {
				if r == nil {
					continue
				}
				q := parse(r[headerLen:])
				if !q.isTCP(r[headerLen:]) || q.version != p.version || q.tcpFlags(r[headerLen:])&tcpRST == 0 ||
					connectionOf(r[headerLen:], &q) != connectionOf(frame, &p) {
					t.Fatalf("a reset of % x is % x", frame, r)
				}
			}
		}
		completeChecksum(slices.Clone(buf))
		corrupt(slices.Clone(buf), 12345)
	})
}
