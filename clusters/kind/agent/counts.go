package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// fold adds what the kernel has counted to the state, before it counts anew.
func fold(st *state, counted map[string]uint64) {
	for handle, s := range st.Impaired {
		done := byLink(handle, s.Paths, counted)
		s.Counted = add(s.Counted, sum(done))
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

// foldDropped adds what an impairment has dropped to its links.
func foldDropped(st *state, done map[string]framework.LinkCounters) {
	for name, c := range done {
		l := st.Links[name]
		l.Dropped += c.Dropped
		st.Links[name] = l
	}
}

// byLink picks out what an impairment has done to each link.
func byLink(handle string, paths []Path, counted map[string]uint64) map[string]framework.LinkCounters {
	done := map[string]framework.LinkCounters{}
	for i, p := range paths {
		name := linkName(p.Peer, p.Out)
		done[name] = add(done[name], framework.LinkCounters{
			Matched: counted[counterName(handle, i, matched)],
			Dropped: counted[counterName(handle, i, dropped)],
			Resets:  counted[counterName(handle, i, resets)],
		})
	}
	return done
}

func add(a, b framework.LinkCounters) framework.LinkCounters {
	return framework.LinkCounters{
		Matched: a.Matched + b.Matched, Dropped: a.Dropped + b.Dropped, Delayed: a.Delayed + b.Delayed,
		Duplicated: a.Duplicated + b.Duplicated, Reordered: a.Reordered + b.Reordered, Corrupted: a.Corrupted + b.Corrupted,
		Resets: a.Resets + b.Resets, Held: a.Held + b.Held, HeldFor: a.HeldFor + b.HeldFor,
	}
}

func sum(links map[string]framework.LinkCounters) (all framework.LinkCounters) {
	for _, c := range links {
		all = add(all, c)
	}
	return all
}

// counters tells what an impairment has done, in force or restored; nil where
// none of that name is known.
func (n *network) counters(handle string) (c *framework.LinkCounters, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.saved()[handle]
	if s == nil {
		n.store.read(func(st *state) {
			for _, r := range st.Restored {
				if r.Handle == handle {
					c = &r.Counted
				}
			}
		})
		return c, nil
	}
	done, err := n.done(handle, s)
	if err != nil {
		return nil, err
	}
	all := add(add(s.Counted, sum(done)), framework.LinkCounters{Resets: n.resetter.count(handle)})
	return &all, nil
}

// done tells what an impairment in force has done to each link, since it was last
// begun to count.
func (n *network) done(handle string, s *impairedState) (map[string]framework.LinkCounters, error) {
	if s.detoured() {
		return n.detours.counters(handle), nil
	}
	b, err := newBatch()
	if err != nil {
		return nil, err
	}
	counted, err := b.counters()
	return byLink(handle, s.Paths, counted), err
}

// link tells the state of one direction between the node and a peer.
func (n *network) link(p Path) (l framework.LinkState, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cannot != nil {
		return l, n.cannot
	}
	b, err := newBatch()
	if err != nil {
		return l, err
	}
	counted, err := b.counters()
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
