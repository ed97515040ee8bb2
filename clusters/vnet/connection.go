package vnet

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

// TCP flags.
const (
	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpACK = 0x10
)

// tcpHeaderLen is the length of a TCP header without options.
const tcpHeaderLen = 20

// isTCP reports whether the packet is TCP with a whole header in the frame.
func (p *packet) isTCP(frame []byte) bool {
	return p.transport != 0 && p.protocol == protoTCP && len(frame) >= p.transport+tcpHeaderLen
}

// tcpFlags returns the flags of a packet that isTCP.
func (p *packet) tcpFlags(frame []byte) uint8 { return frame[p.transport+13] }

// connection names a TCP connection, the same in both directions.
type connection [2]endpoint

type endpoint struct {
	addr [16]byte
	port uint16
}

func (e endpoint) compare(o endpoint) int {
	return cmp.Or(bytes.Compare(e.addr[:], o.addr[:]), cmp.Compare(e.port, o.port))
}

// connectionOf returns the connection of a packet that isTCP.
func connectionOf(frame []byte, p *packet) connection {
	c := connection{{port: p.source}, {port: p.destination}}
	ip := frame[p.network:]
	if p.version == 6 {
		copy(c[0].addr[:], ip[8:24])
		copy(c[1].addr[:], ip[24:40])
	} else {
		copy(c[0].addr[:], ip[12:16])
		copy(c[1].addr[:], ip[16:20])
	}
	if c[0].compare(c[1]) > 0 {
		c[0], c[1] = c[1], c[0]
	}
	return c
}

// connectionLimit bounds how many new connections one rule remembers. The oldest is forgotten
// first, and then counts as one that existed before.
const connectionLimit = 1 << 15

// connections are those that began after a rule became active.
type connections struct {
	known map[connection]struct{}
	// order is a ring of the known ones, next the place of the oldest once it
	// is full.
	order []connection
	next  int
}

func (s *connections) add(c connection) {
	if _, ok := s.known[c]; ok {
		return
	}
	if s.known == nil {
		s.known = make(map[connection]struct{})
	}
	if len(s.order) < connectionLimit {
		s.order = append(s.order, c)
	} else {
		delete(s.known, s.order[s.next])
		s.order[s.next] = c
		s.next = (s.next + 1) % connectionLimit
	}
	s.known[c] = struct{}{}
}

// established reports whether a packet belongs to a TCP connection that existed when the rule
// began. A connection whose SYN passes is new: either side's SYN counts, so that a rule in one
// direction sees the connections of both.
func (r *rule) established(frame []byte, p *packet) bool {
	if !p.isTCP(frame) {
		return false
	}
	c := connectionOf(frame, p)
	if p.tcpFlags(frame)&tcpSYN != 0 {
		r.fresh.add(c)
		return false
	}
	_, isNew := r.fresh.known[c]
	return !isNew
}

// resetOf returns the segments with RST that end the connection of a segment: back is for its
// sender, and on for its receiver, as if each came from the other. on is nil for the first
// segment of a connection, which the receiver does not know. Sequence numbers are those that
// the ends expect (RFC 9293, 3.5.3 and 3.10.7.3); an end that now expects another one sends a
// challenge ACK (RFC 5961), whose answer fits. Both have a complete checksum.
func resetOf(buf []byte, p *packet) (back, on []byte) {
	frame := buf[headerLen:]
	tcp := frame[p.transport:]
	sequence, ack := binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	if p.tcpFlags(frame)&tcpACK == 0 {
		return resetSegment(frame, p, true, tcpRST|tcpACK, 0, sequence+segmentLength(buf, p)), nil
	}
	return resetSegment(frame, p, true, tcpRST, ack, 0), resetSegment(frame, p, false, tcpRST|tcpACK, sequence, ack)
}

// ResetReceiver returns an IP packet with RST that ends the connection of a TCP segment at its
// receiver, as if it came from the sender. The input is an IP packet, of which the headers are
// enough. It returns nil for anything but a segment of a connection that the receiver knows.
func ResetReceiver(packet []byte) []byte {
	if len(packet) == 0 {
		return nil
	}
	buf := make([]byte, headerLen+etherHeaderLen, headerLen+etherHeaderLen+len(packet))
	etherType := uint16(etherTypeIPv4)
	if packet[0]>>4 == 6 {
		etherType = etherTypeIPv6
	}
	binary.BigEndian.PutUint16(buf[headerLen+etherHeaderLen-2:], etherType)
	buf = append(buf, packet...)
	p := parse(buf[headerLen:])
	if !p.isTCP(buf[headerLen:]) {
		return nil
	}
	_, on := resetOf(buf, &p)
	if on == nil {
		return nil
	}
	return on[headerLen+etherHeaderLen:]
}

// segmentLength returns how much of the sequence space a segment takes up.
func segmentLength(buf []byte, p *packet) uint32 {
	frame := buf[headerLen:]
	end := len(frame)
	if buf[1] == 0 {
		// Short frames are padded. A large one has no valid IP length.
		ip := frame[p.network:]
		if p.version == 6 {
			end = min(end, p.network+40+int(binary.BigEndian.Uint16(ip[4:])))
		} else {
			end = min(end, p.network+int(binary.BigEndian.Uint16(ip[2:])))
		}
	}
	n := uint32(max(0, end-p.transport-int(frame[p.transport+12]>>4)*4))
	for _, flag := range []uint8{tcpSYN, tcpFIN} {
		if p.tcpFlags(frame)&flag != 0 {
			n++
		}
	}
	return n
}

// resetSegment returns a segment without data between the ends of a packet, from its receiver
// to its sender if back is set.
func resetSegment(frame []byte, p *packet, back bool, flags uint8, sequence, ack uint32) []byte {
	ipLen := 20
	if p.version == 6 {
		ipLen = 40
	}
	buf := make([]byte, headerLen+p.network+ipLen+tcpHeaderLen)
	out := buf[headerLen:]
	copy(out, frame[:p.network]) // VLAN tags too
	q := packet{version: p.version, protocol: protoTCP, network: p.network, transport: p.network + ipLen}
	ip, old := out[q.network:], frame[p.network:]
	addr, size := 12, 4
	if p.version == 6 {
		addr, size = 8, 16
		ip[0] = 0x60
		binary.BigEndian.PutUint16(ip[4:], tcpHeaderLen)
		ip[6], ip[7] = protoTCP, 64
	} else {
		ip[0], ip[6], ip[8], ip[9] = 0x45, 0x40, 64, protoTCP // do not fragment
		binary.BigEndian.PutUint16(ip[2:], uint16(ipLen+tcpHeaderLen))
	}
	source, destination := old[addr:addr+size], old[addr+size:addr+2*size]
	tcp := out[q.transport:]
	ports := [2]uint16{p.source, p.destination}
	if back {
		copy(out[0:6], frame[6:12])
		copy(out[6:12], frame[0:6])
		source, destination = destination, source
		ports[0], ports[1] = ports[1], ports[0]
	}
	copy(ip[addr:], source)
	copy(ip[addr+size:], destination)
	if p.version == 4 {
		binary.BigEndian.PutUint16(ip[10:], ^fold(sum(0, ip[:ipLen])))
	}
	binary.BigEndian.PutUint16(tcp, ports[0])
	binary.BigEndian.PutUint16(tcp[2:], ports[1])
	binary.BigEndian.PutUint32(tcp[4:], sequence)
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13] = tcpHeaderLen/4<<4, flags
	binary.BigEndian.PutUint16(tcp[16:], ^fold(sum(pseudoHeader(out, q), tcp)))
	return buf
}
