package vnet

import "encoding/binary"

const (
	etherHeaderLen = 14

	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
	etherTypeVLAN = 0x8100
	etherTypeQinQ = 0x88a8

	protoHopByHop = 0
	protoTCP      = 6
	protoUDP      = 17
	protoRouting  = 43
	protoFragment = 44
	protoAuth     = 51
	protoDestOpts = 60
)

// packet is the result of parsing an Ethernet frame. Offsets are from the start of the frame
// and lie within it; 0 means that the part does not exist.
type packet struct {
	version  uint8 // IP version: 4, 6 or 0
	protocol uint8 // the transport protocol, when transport is set
	network  int   // offset of the IP header
	// transport is the offset of the TCP or UDP header. It is 0 in fragments other than the
	// first, which do not contain ports.
	transport   int
	source      uint16
	destination uint16
}

// hasPorts reports whether the packet carries TCP or UDP ports.
func (p *packet) hasPorts() bool { return p.transport != 0 }

// parse classifies a frame. It never fails: it skips what it cannot parse.
func parse(frame []byte) packet {
	var p packet
	if len(frame) < etherHeaderLen {
		return p
	}
	offset := etherHeaderLen
	etherType := binary.BigEndian.Uint16(frame[12:])
	for tags := 0; tags < 2 && (etherType == etherTypeVLAN || etherType == etherTypeQinQ); tags++ {
		if len(frame) < offset+4 {
			return p
		}
		etherType = binary.BigEndian.Uint16(frame[offset+2:])
		offset += 4
	}
	switch etherType {
	case etherTypeIPv4:
		parseIPv4(frame, offset, &p)
	case etherTypeIPv6:
		parseIPv6(frame, offset, &p)
	}
	return p
}

func parseIPv4(frame []byte, offset int, p *packet) {
	if len(frame) < offset+20 || frame[offset]>>4 != 4 {
		return
	}
	headerLen := int(frame[offset]&0x0f) * 4
	if headerLen < 20 || len(frame) < offset+headerLen {
		return
	}
	p.version, p.network = 4, offset
	if binary.BigEndian.Uint16(frame[offset+6:])&0x1fff != 0 {
		return
	}
	parsePorts(frame, offset+headerLen, frame[offset+9], p)
}

func parseIPv6(frame []byte, offset int, p *packet) {
	if len(frame) < offset+40 || frame[offset]>>4 != 6 {
		return
	}
	p.version, p.network = 6, offset
	next := frame[offset+6]
	offset += 40
	// Each extension header is at least eight bytes long, so this ends.
	for {
		switch next {
		case protoTCP, protoUDP:
			parsePorts(frame, offset, next, p)
			return
		case protoHopByHop, protoRouting, protoDestOpts, protoAuth, protoFragment:
		default:
			return
		}
		if len(frame) < offset+8 {
			return
		}
		length := (int(frame[offset+1]) + 1) * 8
		switch next {
		case protoAuth:
			length = (int(frame[offset+1]) + 2) * 4
		case protoFragment:
			length = 8
			if binary.BigEndian.Uint16(frame[offset+2:])&0xfff8 != 0 {
				return
			}
		}
		next = frame[offset]
		offset += length
	}
}

func parsePorts(frame []byte, offset int, protocol uint8, p *packet) {
	if (protocol != protoTCP && protocol != protoUDP) || len(frame) < offset+8 {
		return
	}
	p.protocol, p.transport = protocol, offset
	p.source = binary.BigEndian.Uint16(frame[offset:])
	p.destination = binary.BigEndian.Uint16(frame[offset+2:])
}
