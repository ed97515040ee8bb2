package vnet

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// headerLen is the length of the virtio-net header that goes before each frame
// within the switch, whatever the port (struct virtio_net_hdr, linux/virtio_net.h).
const headerLen = 10

// header is a virtio-net header. TAP devices and packet sockets use the
// machine's byte order, which is little-endian wherever holdfast runs.
type header struct {
	flags      uint8
	gsoType    uint8
	headerSize uint16
	gsoSize    uint16
	csumStart  uint16
	csumOffset uint16
}

func decodeHeader(b []byte) header {
	return header{
		flags:      b[0],
		gsoType:    b[1],
		headerSize: binary.NativeEndian.Uint16(b[2:]),
		gsoSize:    binary.NativeEndian.Uint16(b[4:]),
		csumStart:  binary.NativeEndian.Uint16(b[6:]),
		csumOffset: binary.NativeEndian.Uint16(b[8:]),
	}
}

func (h header) encode(b []byte) {
	b[0], b[1] = h.flags, h.gsoType
	binary.NativeEndian.PutUint16(b[2:], h.headerSize)
	binary.NativeEndian.PutUint16(b[4:], h.gsoSize)
	binary.NativeEndian.PutUint16(b[6:], h.csumStart)
	binary.NativeEndian.PutUint16(b[8:], h.csumOffset)
}

// segmentation describes how a large frame is cut up.
type segmentation struct {
	packet  packet
	headers int // length of all headers, which each segment repeats
	size    int // payload bytes of each segment but the last
	count   int
}

// segmentationOf returns how many packets a wire would carry in place of this
// frame, and how they are made. ok is false for a frame that already is what a
// wire carries, and for one whose headers make no sense.
func segmentationOf(h header, frame []byte) (s segmentation, ok bool) {
	kind := h.gsoType &^ unix.VIRTIO_NET_HDR_GSO_ECN
	if kind == unix.VIRTIO_NET_HDR_GSO_NONE || h.gsoSize == 0 {
		return s, false
	}
	p := parse(frame)
	switch {
	case !p.hasPorts():
		return s, false
	case p.protocol == protoTCP && (kind == unix.VIRTIO_NET_HDR_GSO_TCPV4 || kind == unix.VIRTIO_NET_HDR_GSO_TCPV6):
		if len(frame) < p.transport+20 {
			return s, false
		}
		length := int(frame[p.transport+12]>>4) * 4
		if length < 20 {
			return s, false
		}
		s.headers = p.transport + length
	case p.protocol == protoUDP && kind == unix.VIRTIO_NET_HDR_GSO_UDP_L4:
		s.headers = p.transport + 8
	default:
		return s, false
	}
	payload := len(frame) - s.headers
	if payload <= int(h.gsoSize) {
		return s, false
	}
	s.packet, s.size = p, int(h.gsoSize)
	s.count = (payload + s.size - 1) / s.size
	return s, true
}

// segments cuts a large frame into packets as a network card would and passes
// each, with its virtio-net header before it, to emit, which must not keep it.
// The transport checksum of each packet is left to the receiver
// (VIRTIO_NET_HDR_F_NEEDS_CSUM). scratch is reused where it is large enough.
func (s segmentation) segments(frame, scratch []byte, emit func(buf []byte)) {
	p := s.packet
	checksumOffset := 16
	if p.protocol == protoUDP {
		checksumOffset = 6
	}
	h := header{
		flags:      unix.VIRTIO_NET_HDR_F_NEEDS_CSUM,
		headerSize: uint16(s.headers),
		csumStart:  uint16(p.transport),
		csumOffset: uint16(checksumOffset),
	}
	sequence := binary.BigEndian.Uint32(frame[p.transport+4:])
	for i := range s.count {
		start := s.headers + i*s.size
		end := min(start+s.size, len(frame))
		buf := append(scratch[:0], make([]byte, headerLen)...)
		h.encode(buf)
		buf = append(buf, frame[:s.headers]...)
		buf = append(buf, frame[start:end]...)
		scratch = buf
		seg := buf[headerLen:]
		fixNetworkHeader(seg, p, uint16(i))
		transport := seg[p.transport:]
		if p.protocol == protoTCP {
			binary.BigEndian.PutUint32(transport[4:], sequence+uint32(i*s.size))
			const fin, psh, cwr = 0x01, 0x08, 0x80
			if i != s.count-1 {
				transport[13] &^= fin | psh
			}
			if i != 0 {
				transport[13] &^= cwr
			}
		} else {
			binary.BigEndian.PutUint16(transport[4:], uint16(len(transport)))
		}
		binary.BigEndian.PutUint16(transport[checksumOffset:], fold(pseudoHeader(seg, p)))
		emit(buf)
	}
}

// fixNetworkHeader sets the lengths of a segment's IP header, its
// identification and its checksum.
func fixNetworkHeader(frame []byte, p packet, index uint16) {
	ip := frame[p.network:]
	if p.version == 6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
		return
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+index)
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(0, ip[:p.transport-p.network])))
}

// pseudoHeader sums what the transport checksum covers outside the segment.
func pseudoHeader(frame []byte, p packet) uint64 {
	ip := frame[p.network:]
	addresses := ip[12:20]
	if p.version == 6 {
		addresses = ip[8:40]
	}
	return sum(0, addresses) + uint64(p.protocol) + uint64(len(frame)-p.transport)
}

// completeChecksum computes a checksum that the sender left to the network
// card, in place, and clears the flag. It returns false where the header points
// outside the frame.
func completeChecksum(buf []byte) bool {
	h := decodeHeader(buf)
	if h.flags&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM == 0 {
		return true
	}
	frame := buf[headerLen:]
	at := int(h.csumStart) + int(h.csumOffset)
	if at+2 > len(frame) {
		return false
	}
	checksum := ^fold(sum(0, frame[h.csumStart:]))
	if checksum == 0 {
		// Zero means "no checksum" in UDP; both forms are valid in TCP.
		checksum = 0xffff
	}
	binary.BigEndian.PutUint16(frame[at:], checksum)
	h.flags &^= unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	h.csumStart, h.csumOffset = 0, 0
	h.encode(buf)
	return true
}

// sum adds b to a one's-complement sum in network byte order.
func sum(acc uint64, b []byte) uint64 {
	for len(b) >= 4 {
		acc += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		acc += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		acc += uint64(b[0]) << 8
	}
	return acc
}

func fold(acc uint64) uint16 {
	for acc > 0xffff {
		acc = acc&0xffff + acc>>16
	}
	return uint16(acc)
}
