package vnet

import (
	"slices"

	"golang.org/x/sys/unix"
)

// addressLimit bounds the table of learned addresses. Frames to addresses that
// do not fit are flooded.
const addressLimit = 8192

type address [6]byte

// link is one direction between two parties, for the lifetime of the switch.
type link struct {
	from, to    *party
	rules       []*linkRule
	counters    LinkCounters
	queuedBytes int
}

// LinkCounters counts what was sent on a link, in packets as a wire would carry
// them: a large TCP segment counts as the packets that it stands for. At any
// moment Packets + Duplicated = Delivered + Dropped + Queued.
type LinkCounters struct {
	// Packets and Bytes were received, headers of Ethernet and above included.
	Packets uint64
	Bytes   uint64
	// Delivered were handed to the receiver's device.
	Delivered uint64
	// Dropped were lost for any reason: a rule, an unplugged or closed port, a full receiver.
	Dropped uint64
	// Duplicated were added by rules.
	Duplicated uint64
	// Queued are waiting now.
	Queued uint64
}

// receive switches one frame, with its virtio-net header, from a port.
func (s *Switch) receive(from *Port, buf []byte) {
	if len(buf) < headerLen+etherHeaderLen {
		return
	}
	frame := buf[headerLen:]
	destination, source := address(frame[0:6]), address(frame[6:12])
	if source[0]&1 == 0 {
		s.learn(source, from.party)
	}
	n, bytes := weigh(buf)
	if destination[0]&1 == 0 {
		if to := s.addresses[destination]; to != nil {
			if to != from.party {
				s.transmit(s.link(from.party, to), buf, n, bytes)
			}
			return
		}
	}
	for _, to := range s.ordered {
		if to != from.party && to.attached {
			s.transmit(s.link(from.party, to), buf, n, bytes)
		}
	}
}

func (s *Switch) learn(a address, p *party) {
	known := s.addresses[a]
	if known == p || (known == nil && len(s.addresses) >= addressLimit) || !p.port.plugged {
		return
	}
	s.addresses[a] = p
}

// weigh returns how many packets a wire would carry for this frame, and how
// many bytes.
func weigh(buf []byte) (packets, bytes uint64) {
	frame := buf[headerLen:]
	if buf[1] != unix.VIRTIO_NET_HDR_GSO_NONE {
		if seg, ok := segmentationOf(decodeHeader(buf), frame); ok {
			return uint64(seg.count), uint64(len(frame) + (seg.count-1)*seg.headers)
		}
	}
	return 1, uint64(len(frame))
}

// transmit sends a frame along a link. It does not keep or change buf.
func (s *Switch) transmit(l *link, buf []byte, packets, bytes uint64) {
	l.counters.Packets += packets
	l.counters.Bytes += bytes
	if len(l.rules) == 0 || !l.plugged() {
		s.deliver(l, buf, packets)
		return
	}
	matched := s.matched[:0]
	single, reset := false, false
	var p packet
	parsed := false
	for _, r := range l.rules {
		if !parsed && (len(r.ports) > 0 || inspects(r.rule.Impairment)) {
			p, parsed = parse(buf[headerLen:]), true
		}
		// Both are called: a SYN is remembered in an off phase too.
		acts := r.rule.acts(s.now)
		if r.matches(buf[headerLen:], &p) && acts {
			matched = append(matched, r)
			r.counters.Matched += packets
			single = single || perPacket(r.rule.Impairment)
			reset = reset || r.rule.Reset
		}
	}
	s.matched = matched
	switch {
	case len(matched) == 0:
		s.deliver(l, buf, packets)
	case reset:
		s.reset(l, matched, buf, &p, packets)
	case single && packets > 1:
		seg, _ := segmentationOf(decodeHeader(buf), buf[headerLen:])
		seg.segments(buf[headerLen:], s.segment[:0], func(one []byte) { s.impair(l, matched, one, 1) })
	default:
		s.impair(l, matched, buf, packets)
	}
	clear(matched)
}

// reset drops a segment and ends its connection.
func (s *Switch) reset(l *link, matched []*linkRule, buf []byte, p *packet, packets uint64) {
	back, on := resetOf(buf, p)
	sent := uint64(1)
	if on != nil {
		sent++
	}
	for _, r := range matched {
		r.drops(packets)
		if r.rule.Reset {
			r.counters.Resets += sent
		}
	}
	l.counters.Dropped += packets
	// These reuse the scratch space; matched is not needed any more. They match no rule that
	// resets, so this goes one level deep.
	clear(matched)
	s.transmit(s.link(l.to, l.from), back, 1, uint64(len(back)-headerLen))
	if on != nil {
		s.transmit(l, on, 1, uint64(len(on)-headerLen))
	}
}

// impair sends a frame through the rules that match it. All rules decide about loss first, so
// that a lost packet does not use another rule's rate.
func (s *Switch) impair(l *link, matched []*linkRule, buf []byte, packets uint64) {
	dropped := false
	for _, r := range matched {
		if r.drops(packets) {
			dropped = true
		}
	}
	if dropped {
		l.counters.Dropped += packets
		return
	}
	now := s.now()
	s.hold(l, matched, buf, packets, now)
	for _, r := range matched {
		if r.happens(r.rule.Duplicate) {
			r.counters.Duplicated += packets
			l.counters.Duplicated += packets
			s.hold(l, matched, buf, packets, now)
		}
	}
}

// hold corrupts and delays one copy of a packet, or delivers it immediately if it has no delay.
func (s *Switch) hold(l *link, matched []*linkRule, buf []byte, packets uint64, now int64) {
	own := false // buf may be changed and kept
	for _, r := range matched {
		if r.happens(r.rule.Corrupt) {
			if !own {
				buf, own = slices.Clone(buf), true
			}
			corrupt(buf, r.rng.Uint64())
			r.counters.Corrupted += packets
		}
	}
	due := now
	holds := s.holds[:0]
	for _, r := range matched {
		out, ok := r.pass(due, len(buf)-headerLen, packets)
		if !ok {
			l.counters.Dropped += packets
			return
		}
		if out > due {
			holds = append(holds, hold{part: r, time: out - due})
			due = out
		}
	}
	s.holds = holds
	if due == now {
		s.deliver(l, buf, packets)
		return
	}
	if !own {
		buf = slices.Clone(buf)
	}
	q := &queued{due: due, link: l, buf: buf, packets: packets, holds: slices.Clone(holds)}
	if !s.queue.push(q) {
		l.counters.Dropped += packets
		for _, h := range holds {
			h.part.counters.Dropped += packets
		}
	}
}

// corrupt flips one bit behind the Ethernet header, chosen by a random number. It first
// completes a checksum that the sender left open, or the receiver would accept the packet as
// intact.
func corrupt(buf []byte, random uint64) {
	completeChecksum(buf)
	buf[0] = 0
	body := buf[headerLen+etherHeaderLen:]
	if len(body) == 0 {
		return
	}
	bit := random % uint64(len(body)*8)
	body[bit/8] ^= 1 << (bit % 8)
}

// sendDue delivers the packets that are due and returns when the next one is, or 0 if none
// waits.
func (s *Switch) sendDue() int64 {
	for {
		due, ok := s.queue.next()
		if !ok {
			return 0
		}
		now := s.now()
		if due > now {
			return due
		}
		q := s.queue.pop()
		q.account(now)
		s.deliver(q.link, q.buf, q.packets)
	}
}

// plugged reports whether both ends are attached.
func (l *link) plugged() bool {
	return l.from.port != nil && l.from.port.plugged && l.to.port != nil && l.to.port.plugged
}

// deliver passes a frame to the receiver's device, and counts it for the rules that are active
// on it now, whatever they did to it before.
func (s *Switch) deliver(l *link, buf []byte, packets uint64) {
	if !l.plugged() || !l.to.port.device.write(buf) {
		l.counters.Dropped += packets
		return
	}
	l.counters.Delivered += packets
	if len(l.rules) == 0 {
		return
	}
	p := parse(buf[headerLen:])
	for _, r := range l.rules {
		if r.rule.FlapOn == 0 && r.matches(buf[headerLen:], &p) {
			r.counters.Passed += packets
		}
	}
}
