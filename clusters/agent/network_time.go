package agent

import (
	"fmt"
	"time"

	"github.com/google/nftables"
)

func expired(s *impairedState) bool { return !time.Now().Before(s.Until) }

// schedule sets the timer for the next change of an impairment: its end, or its next phase;
// with mu held.
func (n *network) schedule(handle string, s *impairedState) {
	left, off := time.Until(s.Until), false
	if on, pause := s.Impairment.FlapOn, s.Impairment.FlapOff; on > 0 && !s.detoured() {
		since := time.Since(s.Began) % (on + pause)
		next := on - since
		if off = since >= on; off {
			next += pause
		}
		left = min(left, next)
	}
	if off != n.off[handle] {
		if err := n.flap(handle, s, off); err != nil {
			complain(fmt.Errorf("flapping: %w", err))
			left = min(left, retryPause)
		}
	}
	n.timers.Start(&n.mu, handle, left, func() error {
		if !expired(s) {
			n.schedule(handle, s)
			return nil
		}
		return n.end(handle)
	})
}

// flap deactivates or activates an impairment. Connections that exist when it becomes active
// count as established.
func (n *network) flap(handle string, s *impairedState, off bool) error {
	b, err := n.change()
	if err != nil {
		return err
	}
	if s.Impairment.Established && !off {
		b.FlushSet(&nftables.Set{Table: b.table, Name: freshSet(handle)})
	}
	n.off[handle] = off
	if err := n.dispatch(b); err != nil {
		n.off[handle] = !off
		return err
	}
	return nil
}
