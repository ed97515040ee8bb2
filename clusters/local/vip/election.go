package vip

import "time"

// election decides which node holds the address, from messages and the time alone.
type election struct {
	rank, nodes int // this node's place in the order, from 0, and the number of nodes
	interval    time.Duration
	fall        int

	ready  bool
	holder bool
	// yielded reports whether this node gave way to another holder, which keeps the address.
	yielded bool
	// heard is the time of the last message of a holder.
	heard time.Time
}

// patience is how long a holder may be silent.
func (e *election) patience() time.Duration { return time.Duration(e.fall) * e.interval }

// due is when this node takes the address unless a holder announces itself.
func (e *election) due() time.Time {
	return e.heard.Add(e.patience() + e.interval*time.Duration(e.rank)/time.Duration(e.nodes))
}

// check processes the state of the API server.
func (e *election) check(ready bool, now time.Time) {
	if ready && !e.ready {
		// Others may become ready at the same time: let the order decide.
		if late := now.Add(-e.patience()); e.heard.Before(late) {
			e.heard = late
		}
	}
	e.ready = ready
	if !ready {
		e.holder = false
	}
}

// hear processes a message of another node: it holds the address or has released it.
func (e *election) hear(rank int, holds bool, now time.Time) {
	if !holds {
		e.heard = now.Add(-e.patience())
		return
	}
	e.heard = now
	if rank < e.rank && e.holder {
		e.holder, e.yielded = false, true
	}
}

// pass processes the passage of time.
func (e *election) pass(now time.Time) {
	if e.ready && !e.holder && !now.Before(e.due()) {
		e.holder, e.yielded = true, false
	}
}
