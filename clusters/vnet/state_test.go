package vnet

import "golang.org/x/sys/unix"

// Parties returns the names under which ports have ever been attached, in the
// order of their first appearance.
func (s *Switch) Parties() []string {
	unlock := s.lock()
	defer unlock()
	var names []string
	for _, p := range s.ordered {
		if p.attached {
			names = append(names, p.name)
		}
	}
	return names
}

// LinkCounters returns the counters of one directed link. They are all zero
// where nothing was ever sent, or a name is unknown.
func (s *Switch) LinkCounters(from, to string) LinkCounters {
	return s.Link(from, to).LinkCounters
}

// Links returns the state of every link on which a packet was ever sent or a rule is active.
func (s *Switch) Links() (all []LinkStatus) {
	unlock := s.lock()
	defer unlock()
	for _, row := range s.links {
		for _, l := range row {
			if l != nil {
				all = append(all, l.status())
			}
		}
	}
	return all
}

// Plug puts the cable in again. It does nothing on a port that was closed.
func (p *Port) Plug() {
	unlock := p.sw.lock()
	defer unlock()
	if p.sw.ports[p.id] == p {
		p.plugged = true
	}
}

// lost reports whether the switch has stopped reading from a port, whose device was removed.
func (p *Port) lost() bool {
	unlock := p.sw.lock()
	defer unlock()
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: p.id}
	return unix.EpollCtl(p.sw.loop.epoll, unix.EPOLL_CTL_MOD, p.device.fd(), &event) == unix.ENOENT
}
