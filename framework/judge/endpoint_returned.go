package judge

func endpointReturned() definition {
	return definition{Doc{
		Name:       "endpoint-returned",
		Guarantee:  "The address of an API server that is back is listed in the Endpoints and EndpointSlice of default/kubernetes within the bound, once: it does not leave again.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgeEndpointReturned}
}

func judgeEndpointReturned(m *matter) finding {
	node := m.fault.node()
	address := m.address(node)
	if address == "" {
		return inconclusive("the fault hit no control-plane node, but %q", m.fault.injected.Target)
	}
	called, back, end := m.fault.healed.Called, m.fault.healEffect(), m.run.EndAt+1
	end = min(end, nextChange(m.run, back))
	for _, other := range m.faults {
		if other.injected != nil && other.injected.Called > back {
			end = min(end, other.injected.Called)
		}
	}
	gone := map[string]bool{}
	var changes []change
	for _, c := range chains(m.run, append(m.disturbed(called, end), node)...) {
		listed, known := c.lists(address, called)
		if known && !listed {
			gone[c.source] = true
			changes = append(changes, c.follow(address, true, called, end))
		}
	}
	for _, source := range sources {
		if !gone[source] {
			return inconclusive("the %s of default/kubernetes was not seen to have dropped %s (%s) before it came back, so its return cannot be judged",
				source, node, address)
		}
	}
	// It may be listed before the proof that it is back is there.
	for i := range changes {
		if changes[i].done {
			changes[i].at = max(changes[i].at, back)
		}
		changes[i].last = max(changes[i].last, back)
	}
	s := settle(changes, back, min(end, m.run.EndAt), m.bound.Limit)
	switch {
	case s.late != nil && s.late.done:
		return failed("The address of an API server that is back must be listed in default/kubernetes within %s: %s (%s) was in %s only after %s.",
			m.bound, node, address, s.late.chain, short(s.worst)).took(s.worst).rests(called, s.late.at)
	case s.late != nil:
		return failed("The address of an API server that is back must be listed in default/kubernetes within %s: %s (%s) was still not in %s after %s.",
			m.bound, node, address, s.late.chain, short(s.worst)).took(s.worst).rests(called, s.late.last)
	case s.undone != nil:
		return failed("The address of an API server that is back must be listed in default/kubernetes once: %s (%s) came into %s %s, and left it again %s.",
			node, address, s.undone.chain, at(s.undone.at), at(s.undone.undoneAt)).rests(m.lapse(s.undone.undoneAt, s.undone.undoneAt))
	case len(s.missing) > 0:
		return inconclusive("%s was not seen to list %s (%s) again, but was not watched for the whole bound of %s after it was back (the record ends after %s)",
			and(s.missing), node, address, m.bound, short(span(back, end)))
	case len(s.unread) > 0:
		return inconclusive("default/kubernetes was last seen without %s (%s) in %s, and nothing was read of them afterwards for more than %s",
			node, address, and(s.unread), short(blind))
	}
	return passed("The address of %s (%s) was back in Endpoints and EndpointSlice %s after the API server was, within %s, and did not leave again.",
		node, address, short(s.worst), m.bound).took(s.worst)
}
