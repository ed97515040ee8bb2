package judge

import (
	"time"
)

func endpointRemoved() definition {
	return definition{Doc{
		Name:       "endpoint-removed",
		Guarantee:  "The address of an API server that is gone leaves the Endpoints and EndpointSlice of default/kubernetes within the bound, and stays away until it is back.",
		Source:     "API server HA proposal, section 3; apiserver-count fix proposal",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"since": "what the bound counts from: effect (default), the proof that the fault acted, or call, for a fault that takes its time, such as stop",
		},
	}, judgeEndpointRemoved}
}

func judgeEndpointRemoved(m *matter) finding {
	node := m.fault.node()
	address := m.address(node)
	if address == "" {
		return inconclusive("the fault hit no control-plane node, but %q", m.fault.injected.Target)
	}
	from, to := m.fault.effect(), m.fault.healed.Called
	switch since := m.param("since", "effect"); since {
	case "effect":
	case "call":
		from = m.fault.injected.Called
	default:
		return inconclusive("parameter since is %q: want call or effect", since)
	}
	listed := map[string]bool{}
	var changes []change
	for _, c := range chains(m.run, append(m.disturbed(from, to), node)...) {
		if was, _ := c.lists(address, m.fault.injected.Called); was {
			listed[c.source] = true
			changes = append(changes, c.follow(address, false, from, to))
		}
	}
	for _, source := range sources {
		if !listed[source] {
			return inconclusive("the %s of default/kubernetes did not list %s (%s) before the fault", source, node, address)
		}
	}
	s := settle(changes, from, to, m.bound.Limit)
	switch {
	case s.late != nil && s.late.done:
		return failed("The address of a lost API server must leave default/kubernetes within %s of the %s: %s (%s) left %s only after %s.",
			m.bound, m.fault.what(), node, address, s.late.chain, short(s.worst)).took(s.worst).rests(from, s.late.at)
	case s.late != nil:
		return failed("The address of a lost API server must leave default/kubernetes within %s of the %s: %s (%s) was still listed in %s after %s.",
			m.bound, m.fault.what(), node, address, s.late.chain, short(s.worst)).took(s.worst).rests(from, s.late.last)
	case s.undone != nil:
		return failed("The address of a lost API server must stay out of default/kubernetes: %s (%s) left %s %s after the %s, and was listed again %s, before the fault was healed.",
			node, address, s.undone.chain, short(time.Duration(s.undone.at-from)), m.fault.what(), at(s.undone.undoneAt)).rests(m.lapse(s.undone.undoneAt, s.undone.undoneAt))
	case len(s.missing) > 0:
		return inconclusive("%s was not seen to drop %s (%s), but was not watched for the whole bound of %s before the fault was healed after %s",
			and(s.missing), node, address, m.bound, short(time.Duration(to-from)))
	case len(s.unread) > 0:
		return inconclusive("default/kubernetes was last seen with %s (%s) in %s, and nothing was read of them afterwards for more than %s",
			node, address, and(s.unread), short(blind))
	}
	return passed("The address of %s (%s) left Endpoints and EndpointSlice %s after the %s, within %s, and stayed away until it was healed.",
		node, address, short(s.worst), m.fault.what(), m.bound).took(s.worst)
}
