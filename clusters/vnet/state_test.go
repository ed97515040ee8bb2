package vnet

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

// Plug puts the cable in again. It does nothing on a port that was closed.
func (p *Port) Plug() {
	unlock := p.sw.lock()
	defer unlock()
	if p.sw.ports[p.id] == p {
		p.plugged = true
	}
}
