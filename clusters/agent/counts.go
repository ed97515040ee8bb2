package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// fold adds the kernel's counters to the state before the kernel resets them.
func fold(st *state, counted map[string]uint64) {
	for handle, s := range st.Impaired {
		done := byLink(handle, s.Paths, counted)
		s.Counted = addLinks(s.Counted, done)
		foldDropped(st, done)
	}
	for _, p := range st.Peers {
		for _, out := range []bool{false, true} {
			name := linkName(p.Name, out)
			l := st.Links[name]
			l.Delivered += counted[passedName(p.Name, out)]
			st.Links[name] = l
		}
	}
}

// foldDropped adds the packets that an impairment has dropped to its links.
func foldDropped(st *state, done map[string]framework.LinkCounters) {
	for name, c := range done {
		l := st.Links[name]
		l.Dropped += c.Dropped
		st.Links[name] = l
	}
}

// byLink returns what an impairment has done to each link.
func byLink(handle string, paths []Path, counted map[string]uint64) map[string]framework.LinkCounters {
	done := map[string]framework.LinkCounters{}
	for i, p := range paths {
		name := linkName(p.Peer, p.Out)
		done[name] = done[name].Add(framework.LinkCounters{
			Matched: counted[counterName(handle, i, matched)],
			Passed:  counted[counterName(handle, i, passed)],
			Dropped: counted[counterName(handle, i, dropped)],
			Resets:  counted[counterName(handle, i, resets)],
		})
	}
	return done
}

// bypassed returns the counters of links whose packets passed while the table did not exist.
func bypassed(paths []Path) links {
	all := links{}
	for _, p := range paths {
		all[linkName(p.Peer, p.Out)] = framework.LinkCounters{Bypassed: 1}
	}
	return all
}

// links are counters by linkName.
type links = map[string]framework.LinkCounters

// addLinks returns the sums of counters.
func addLinks(a, b links) links {
	all := links{}
	maps.Copy(all, a)
	for name, c := range b {
		all[name] = all[name].Add(c)
	}
	return all
}

// counters returns what an impairment has done to each link, active or restored; nil if the
// name is unknown. Segments that its resets send to receivers are not counted for any link.
func (n *network) counters(handle string) (c links, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.saved()[handle]
	if s == nil {
		n.store.read(func(st *state) {
			for _, r := range st.Restored {
				if r.Handle == handle {
					c = r.Counted
				}
			}
		})
		return c, nil
	}
	done, err := n.done(handle, s)
	if err != nil {
		return nil, err
	}
	return addLinks(addLinks(s.Counted, done), links{"": {Resets: n.resetter.count(handle)}}), nil
}

// tally reads the kernel's counters. While the table does not exist, it returns those of the last
// reading.
func (n *network) tally(b *batch) (map[string]uint64, error) {
	counted, err := b.counters()
	if err != nil {
		return nil, err
	}
	n.store.read(func(st *state) { // the next change saves it
		if len(counted) == 0 {
			counted = st.Counted
		}
		st.Counted = counted
	})
	return counted, nil
}

// done reports what an active impairment has done to each link since its counters were last
// reset.
func (n *network) done(handle string, s *impairedState) (map[string]framework.LinkCounters, error) {
	if s.detoured() {
		return n.detours.counters(handle), nil
	}
	b, err := n.newBatch()
	if err != nil {
		return nil, err
	}
	counted, err := n.tally(b)
	done := byLink(handle, s.Paths, counted)
	if n.silenced > 0 && !b.silences() {
		for name, c := range done {
			if strings.HasPrefix(name, linkName("", true)) { // it was let go for that to drop it
				c.Passed, c.Dropped = c.Passed+c.Dropped, 0
				done[name] = c
			}
		}
	}
	return done, err
}

// link reports the state of one direction between the node and a peer.
func (n *network) link(p Path) (l framework.LinkState, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cannot != nil {
		return l, n.cannot
	}
	b, err := n.newBatch()
	if err != nil {
		return l, err
	}
	counted, err := n.tally(b)
	if err != nil {
		return l, err
	}
	name := linkName(p.Peer, p.Out)
	n.store.read(func(st *state) {
		if len(prefixesOf(st.Peers, p.Peer)) == 0 {
			err = fmt.Errorf("no peer %q is known here", p.Peer)
			return
		}
		l = st.Links[name]
		l.Delivered += counted[passedName(p.Peer, p.Out)]
		for _, handle := range slices.Sorted(maps.Keys(st.Impaired)) {
			s := st.Impaired[handle]
			done := byLink(handle, s.Paths, counted)
			if s.detoured() {
				done = n.detours.counters(handle)
			}
			if c, on := done[name]; on {
				l.Dropped += c.Dropped
				l.Impairments = append(l.Impairments, handle)
			}
		}
	})
	return l, err
}
