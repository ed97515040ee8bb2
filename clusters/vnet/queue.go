package vnet

import (
	"container/heap"
	"time"
)

const (
	// linkQueueLimit bounds the bytes that wait on one link: 20 ms of 10 Gbit/s
	// fit. queueLimit bounds them for the whole switch.
	linkQueueLimit = 32 << 20
	queueLimit     = 256 << 20
)

// queued is a packet that rules delay.
type queued struct {
	due     int64 // nanoseconds on the switch's clock
	order   uint64
	link    *link
	buf     []byte // virtio-net header and frame
	packets uint64
	holds   []hold
	early   bool // a rule that held it was removed
}

// hold is the part of a packet's delay caused by one rule.
type hold struct {
	part *linkRule
	time int64
}

// queue contains delayed packets, ordered by the time at which they are due, then by arrival.
type queue struct {
	heap  packetHeap
	order uint64
	bytes int
}

// push adds a packet, and returns false if the queue is full.
func (q *queue) push(p *queued) bool {
	size := cap(p.buf)
	if q.bytes+size > queueLimit || p.link.queuedBytes+size > linkQueueLimit {
		return false
	}
	q.bytes += size
	p.link.queuedBytes += size
	p.link.counters.Queued += p.packets
	q.order++
	p.order = q.order
	heap.Push(&q.heap, p)
	return true
}

// next returns when the first packet is due; ok is false if none exists.
func (q *queue) next() (due int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].due, true
}

func (q *queue) pop() *queued {
	p := heap.Pop(&q.heap).(*queued)
	q.forget(p)
	return p
}

func (q *queue) forget(p *queued) {
	q.bytes -= cap(p.buf)
	p.link.queuedBytes -= cap(p.buf)
	p.link.counters.Queued -= p.packets
}

// remove drops the packets for which drop returns true, and counts them as dropped.
func (q *queue) remove(drop func(*queued) bool) {
	kept := q.heap[:0]
	for _, p := range q.heap {
		if drop(p) {
			q.forget(p)
			p.link.counters.Dropped += p.packets
			continue
		}
		kept = append(kept, p)
	}
	clear(q.heap[len(kept):])
	q.heap = kept
	heap.Init(&q.heap)
}

// account adds a packet that leaves now to the counters of the rules that held it. A packet
// released by a removed rule may leave later than the others required; no rule counts that
// excess.
func (p *queued) account(now int64) {
	late := now - p.due
	if p.early {
		late = 0
	}
	for _, h := range p.holds {
		if h.time > 0 {
			c := h.part.counters
			c.Held += p.packets
			c.HeldFor += time.Duration((h.time + late) * int64(p.packets))
			c.HeldBytes += uint64(len(p.buf) - headerLen)
		}
	}
}

// release removes the delay that a rule has put on waiting packets, and reports whether there
// were any.
func (q *queue) release(r *rule) bool {
	found := false
	for _, p := range q.heap {
		for i := range p.holds {
			if p.holds[i].part.rule == r {
				p.due -= p.holds[i].time
				p.holds[i].time = 0
				p.early, found = true, true
			}
		}
	}
	if found {
		heap.Init(&q.heap)
	}
	return found
}

type packetHeap []*queued

func (h packetHeap) Len() int { return len(h) }
func (h packetHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].order < h[j].order
}
func (h packetHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *packetHeap) Push(x any)   { *h = append(*h, x.(*queued)) }
func (h *packetHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
