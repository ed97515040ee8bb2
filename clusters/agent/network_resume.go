package agent

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// close leaves all rules in place, and saves the counters in case the node is about to restart.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timers.StopAll()
	if n.cannot != nil {
		return
	}
	n.resetter.close()
	if b, err := n.newBatch(); err == nil {
		if counted, err := n.tally(b); err == nil {
			n.store.note(func(st *state) { st.Counted = counted })
		}
	}
}

// resume takes over what an earlier agent left in the kernel, or activates again what a restart
// of the node has removed.
func (n *network) resume(restarted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if restarted {
		n.store.note(func(st *state) { clear(st.Filters) }) // the node has set them again
	}
	if n.device == "" {
		n.cannot = agenthttp.Unsupported("links of this node cannot be impaired: its agent was given no device")
		return
	}
	n.resetter.start()
	if err := n.takeOver(); err != nil {
		n.cannot = agenthttp.Unsupported(fmt.Sprintf("links of this node cannot be impaired: nftables does not work here: %v", err))
		complain(n.cannot)
		if len(n.saved()) > 0 {
			n.timers.Start(&n.mu, again, retryPause, n.resumeAgain)
		}
		n.scheduleAll()
		return
	}
	n.detourAgain()
	n.scheduleAll()
}

// Keys of timers that are not handles.
const (
	again      = ""  // of resumeAgain
	rebuilding = " " // of rebuild, until it succeeds
)

// resumeAgain takes over what an earlier attempt could not: nftables did work when it was activated. With
// mu held.
func (n *network) resumeAgain() error {
	if err := n.takeOver(); err != nil {
		return fmt.Errorf("failed to take over impaired links: %w", err)
	}
	n.cannot = nil
	n.detourAgain()
	n.scheduleAll()
	return nil
}

// scheduleAll ends what has expired, and sets the timers of the rest; with mu held.
func (n *network) scheduleAll() {
	for handle, s := range n.saved() {
		if expired(s) {
			if err := n.end(handle); err == nil {
				continue
			}
		}
		n.schedule(handle, s)
	}
}

// detourAgain creates the detours again that ended with an earlier agent.
func (n *network) detourAgain() {
	var errs []error
	for handle, s := range n.saved() {
		if s.detoured() && !expired(s) {
			errs = append(errs, n.detours.add(handle, s.Paths, s.Impairment))
		}
	}
	if err := errors.Join(append(errs, n.rebuild())...); err != nil && len(errs) > 0 {
		complain(fmt.Errorf("failed to route links through user space again: %w", err))
	}
}

// takeOver keeps the table if it matches the state, so that no impairment is inactive for a
// moment and no connection is forgotten. Otherwise it creates the table again.
func (n *network) takeOver() error {
	b, err := n.newBatch()
	if err != nil {
		return err
	}
	saved := n.saved()
	maps.DeleteFunc(saved, func(_ string, s *impairedState) bool { return s.detoured() })
	for handle, s := range saved {
		n.off[handle] = expired(s)
	}
	_, err = b.ListChain(b.table, bases()[0].name)
	mine := err == nil
	var counted map[string]uint64
	if mine {
		if counted, err = b.counters(); err != nil {
			return err
		}
	} else {
		n.store.read(func(st *state) { counted = st.Counted })
	}
	there := map[string]bool{}
	for name := range counted {
		if handle, ok := handleOf(name); ok && strings.HasSuffix(name, passed) { // earlier agents did not count that
			there[handle] = true
		}
	}
	if mine && maps.EqualFunc(there, saved, func(bool, *impairedState) bool { return true }) {
		return n.dispatch(b)
	}
	if err := n.create(b, counted); err != nil {
		return err
	}
	return n.dispatch(b)
}

// create creates the table, after its counters were read, with impairments that dispatch activates.
func (n *network) create(b *batch, counted map[string]uint64) error {
	n.store.note(func(st *state) {
		fold(st, counted)
		st.Counted = nil
	})
	b.begin()
	for handle, s := range n.saved() {
		if s.detoured() {
			continue
		}
		if err := b.addImpairment(handle, s.Paths, s.Impairment, n.resetter.tell(handle)); err != nil {
			return err
		}
	}
	return nil
}

var errTableDeleted = errors.New("another program has deleted the agent's nftables table: creating it again")

// change returns a batch for a change of the table. The batch first creates the table again if
// another program has deleted it, as a restart of nftables does.
func (n *network) change() (*batch, error) {
	b, err := n.newBatch()
	if err != nil {
		return nil, err
	}
	gone, err := b.gone(b.table)
	if err != nil || !gone {
		return b, err
	}
	complain(errTableDeleted)
	n.silenced = 0 // the table of silence may be gone as well
	var counted map[string]uint64
	n.store.note(func(st *state) {
		counted = st.Counted
		for handle, s := range st.Impaired {
			if !n.off[handle] && !s.detoured() {
				s.Counted = addLinks(s.Counted, bypassed(s.Paths))
			}
		}
	})
	return b, n.create(b, counted)
}
