package vnet

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Types of rules. The names of a Link are names under which ports were attached; the ports may
// be closed, now or later. Only the first part of a fragmented packet has the ports of TCP and
// UDP, so only that one matches a link with ports; without it the receiver cannot use the rest.
//
// On this network a Cut also drops the packets that are delayed on the link, and a Reset passes
// everything except TCP, and the RST of others. Jitter is per packet, so a jitter longer than
// the gap between packets reorders them, as with netem. A reordered packet is held back by a
// further 10 ms. A corrupted one has one bit flipped behind the Ethernet header, with the
// checksums unchanged; ARP, which has none, is never corrupted, or a wrong address would
// outlive the rule. A Rate counts Ethernet frames, and packets that would wait for more than
// 200 ms (but at least 48 KiB) are dropped. Packets that are delayed when an on phase begins or
// ends leave as they would have.
type (
	Link       = framework.Link
	Impairment = framework.Impairment
	// RuleCounters count packets as a wire would carry them: a large TCP segment counts as the
	// packets that it stands for. Each rule counts separately, so a packet that two cuts would
	// drop is counted as dropped by both. Packets that Remove releases early count neither as
	// Held nor in HeldFor.
	RuleCounters = framework.LinkCounters
)

// removedLimit is the number of removed rules whose counters the switch keeps.
const removedLimit = 64

const (
	reorderHold  = 10 * time.Millisecond
	rateQueue    = 200 * time.Millisecond
	rateQueueMin = 48 << 10 // bytes
)

// perPacket reports whether the impairment must see packets as on a wire.
func perPacket(i Impairment) bool {
	return i.Loss > 0 || i.Duplicate > 0 || i.Reorder > 0 || i.Corrupt > 0 || i.Rate > 0
}

func validate(i Impairment) error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"loss", i.Loss}, {"duplicate", i.Duplicate}, {"reorder", i.Reorder}, {"corrupt", i.Corrupt}} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("%s is %v, want a probability from 0 to 1", p.name, p.value)
		}
	}
	if i.Delay < 0 || i.Jitter < 0 {
		return fmt.Errorf("delay %v and jitter %v must not be negative", i.Delay, i.Jitter)
	}
	if i.Rate < 0 {
		return fmt.Errorf("rate is %d bit/s, want 0 for no limit or more", i.Rate)
	}
	if i.Cut && i.Reset {
		return errors.New("cut and reset cannot be combined: cut drops packets silently, reset answers them")
	}
	return errors.Join(validateDistribution(i.Distribution), validateFlap(i))
}

// inspects reports whether the impairment depends on the packet's type.
func inspects(i Impairment) bool { return i.Reset || i.Established || i.Corrupt > 0 }

// Rule is one impairment on any number of links.
type Rule struct {
	Links []Link
	Impairment
}

// RuleID identifies a rule for the lifetime of the switch.
type RuleID uint64

// rule is an active Rule, or the remains of a removed one.
type rule struct {
	Impairment
	id       RuleID
	counters []*RuleCounters // in the order of Rule.Links
	parts    []*linkRule     // nil once removed
	began    int64           // on the switch's clock
	turn     int64           // number of the last on phase seen
	fresh    connections     // opened since, if Established needs it
}

// linkRule is the part of a rule that is on one link.
type linkRule struct {
	rule     *rule
	link     *link
	counters *RuleCounters
	ports    []uint16 // nil means all
	rng      *rand.Rand
	free     int64 // when the last packet under Rate will have been sent
}

func (r *linkRule) matches(frame []byte, p *packet) bool {
	switch {
	case len(r.ports) > 0 && (!p.hasPorts() || !slices.Contains(r.ports, p.source) && !slices.Contains(r.ports, p.destination)):
		return false
	case r.rule.Corrupt > 0 && p.version == 0: // only IP has checksums that show damage
		return false
	case r.rule.Reset && (!p.isTCP(frame) || p.tcpFlags(frame)&tcpRST != 0):
		return false
	}
	return !r.rule.Established || r.rule.established(frame, p)
}

func (r *linkRule) happens(probability float64) bool {
	return probability > 0 && r.rng.Float64() < probability
}

// drops decides whether the rule drops a frame that stands for n packets.
func (r *linkRule) drops(n uint64) bool {
	if r.rule.Cut || r.rule.Reset || r.happens(r.rule.Loss) {
		r.counters.Dropped += n
		return true
	}
	return false
}

// pass sends a packet that enters the rule at a point in time through its rate limit and delay,
// and returns when it leaves; ok is false if the queue of the limit is full.
func (r *linkRule) pass(at int64, size int, n uint64) (out int64, ok bool) {
	out = at
	if r.rule.Rate > 0 {
		start := max(at, r.free)
		wait := time.Duration(start - at)
		if wait > rateQueue && float64(wait)*float64(r.rule.Rate) > rateQueueMin*8*1e9 {
			r.counters.Dropped += n
			return 0, false
		}
		r.free = start + int64(float64(size)*8*1e9/float64(r.rule.Rate))
		out = r.free
	}
	delay := r.rule.Delay
	if r.rule.Jitter > 0 {
		delay += jitter(r.rng, r.rule.Distribution, r.rule.Jitter)
	}
	if delay > 0 {
		out += int64(delay)
	}
	if r.happens(r.rule.Reorder) {
		out += int64(reorderHold)
		r.counters.Reordered += n
	}
	if out > at {
		r.counters.Delayed += n
	}
	return out, true
}

// Impair activates a rule on all its links in one step and returns its ID. When Impair returns,
// it applies to every packet. An error names the invalid link or value; nothing has been
// changed then.
func (s *Switch) Impair(r Rule) (RuleID, error) {
	if err := validate(r.Impairment); err != nil {
		return 0, fmt.Errorf("failed to impair the network: %w", err)
	}
	if len(r.Links) == 0 {
		return 0, errors.New("failed to impair the network: the rule names no link")
	}
	unlock := s.lock()
	defer unlock()
	if s.closed {
		return 0, fmt.Errorf("failed to impair the network: %w", ErrClosed)
	}
	s.lastRule++
	id := s.lastRule
	active := &rule{Impairment: r.Impairment, id: id, began: s.now()}
	for _, l := range r.Links {
		from, to := s.known(l.From), s.known(l.To)
		switch {
		case from == nil:
			return 0, fmt.Errorf("failed to impair the network: link from %q to %q: no port has been attached as %q", l.From, l.To, l.From)
		case to == nil:
			return 0, fmt.Errorf("failed to impair the network: link from %q to %q: no port has been attached as %q", l.From, l.To, l.To)
		case from == to:
			return 0, fmt.Errorf("failed to impair the network: link from %q to itself: the switch does not carry such packets", l.From)
		}
		active.add(s.link(from, to), l.Ports)
	}
	for _, part := range active.parts {
		part.rng = s.random(uint64(id), part.link)
		part.link.rules = append(part.link.rules, part)
	}
	s.rules[id] = active
	if r.Cut {
		s.cutQueued(active)
	}
	return id, nil
}

// add puts a rule on a link, or widens it if it is there already.
func (r *rule) add(l *link, ports []uint16) {
	r.counters = append(r.counters, &RuleCounters{})
	for _, part := range r.parts {
		if part.link == l {
			if len(ports) == 0 || len(part.ports) == 0 {
				part.ports = nil
			} else {
				part.ports = append(part.ports, ports...)
			}
			return
		}
	}
	r.parts = append(r.parts, &linkRule{rule: r, link: l, counters: r.counters[len(r.counters)-1], ports: slices.Clone(ports)})
}

// cutQueued drops the packets that wait on the links of a new cut.
func (s *Switch) cutQueued(r *rule) {
	for _, part := range r.parts {
		s.queue.remove(func(q *queued) bool {
			if q.link != part.link {
				return false
			}
			p := parse(q.buf[headerLen:])
			if !part.matches(q.buf[headerLen:], &p) {
				return false
			}
			part.counters.Matched += q.packets
			part.counters.Dropped += q.packets
			return true
		})
	}
}

// Remove deactivates a rule on all its links in one step. Packets that it held back leave
// immediately, in their order, unless another rule holds them too. Removing a removed rule does
// nothing. The counters of the last removedLimit removed rules can still be read.
func (s *Switch) Remove(id RuleID) {
	unlock := s.lock()
	defer unlock()
	active := s.rules[id]
	if active == nil || active.parts == nil {
		return
	}
	for _, part := range active.parts {
		part.link.rules = slices.DeleteFunc(part.link.rules, func(o *linkRule) bool { return o == part })
	}
	active.parts, active.fresh = nil, connections{}
	s.removed = append(s.removed, id)
	if len(s.removed) > removedLimit {
		delete(s.rules, s.removed[0])
		s.removed = slices.Delete(s.removed, 0, 1)
	}
	if s.queue.release(active) {
		s.sendDue()
		s.wake()
	}
}

// RuleCounters reports what a rule has done to each of its links so far, in the order of
// Rule.Links, also for a while after Remove. A link that is named more than once counts at its
// first position. It returns false for an unknown ID, and for a rule that was removed long ago.
func (s *Switch) RuleCounters(id RuleID) ([]RuleCounters, bool) {
	unlock := s.lock()
	defer unlock()
	r := s.rules[id]
	if r == nil {
		return nil, false
	}
	all := make([]RuleCounters, len(r.counters))
	for i, c := range r.counters {
		all[i] = *c
	}
	return all, true
}

// random returns the source of randomness of a rule on a link. It depends only on the switch's
// seed, the rule's number and the names.
func (s *Switch) random(id uint64, l *link) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s", id, l.from.name, l.to.name)
	return rand.New(rand.NewPCG(s.config.Seed, h.Sum64()))
}
