package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var endpointReturned = Definition{Doc{
	Name:       "endpoint-returned",
	Guarantee:  "The address of an API server that is back is listed in the Endpoints and EndpointSlice of default/kubernetes within the bound, once: it does not leave again.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true, Coarser: true, Killed: true,
}, judgeEndpointReturned}

func judgeEndpointReturned(m *facts.Case) Finding {
	node := m.Fault.Node()
	address := m.Address(node)
	if address == "" {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	if m.EtcdAlone(node) {
		return noneBeside(node)
	}
	called, back := m.Fault.Healed.Called, m.Fault.HealEffect()
	end := min(m.Run.EndAt+1, facts.NextDisturbance(m.Run, back), m.NextInjection(back))
	gone := map[string]bool{}
	var changes []facts.Change
	for _, c := range facts.Chains(m.Run, append(m.Disturbed(called, end), node)...) {
		listed, known := c.Lists(address, called)
		if known && !listed {
			gone[c.Source] = true
			changes = append(changes, c.Follow(address, true, called, end))
		}
	}
	for _, source := range facts.Sources {
		if !gone[source] {
			return Inconclusive("the %s of default/kubernetes was not seen to have dropped %s (%s) before it came back, so its return cannot be judged",
				source, node, address)
		}
	}
	// It may be listed before there is proof that it is back.
	for i := range changes {
		if changes[i].Done {
			changes[i].At = max(changes[i].At, back)
		}
		changes[i].Last = max(changes[i].Last, back)
	}
	s := facts.Settle(changes, back, min(end, m.Run.EndAt), m.Bound.Limit)
	switch {
	case s.Late != nil && s.Late.Done:
		return Failed("The address of an API server that is back must be listed in default/kubernetes within %s: %s (%s) was in %s only after %s.",
			m.Bound, node, address, s.Late.Chain, text.Short(s.Worst)).Took(s.Worst).Rests(called, s.Late.At)
	case s.Late != nil:
		return Failed("The address of an API server that is back must be listed in default/kubernetes within %s: %s (%s) was still not in %s after %s.",
			m.Bound, node, address, s.Late.Chain, text.Short(s.Worst)).Took(s.Worst).Rests(called, s.Late.Last)
	case s.Undone != nil:
		return Failed("The address of an API server that is back must stay listed in default/kubernetes: %s (%s) was added to %s %s, and left it again %s.",
			node, address, s.Undone.Chain, text.At(s.Undone.At), text.At(s.Undone.UndoneAt)).Rests(m.Lapse(s.Undone.UndoneAt, s.Undone.UndoneAt))
	case len(s.Missing) > 0:
		return Inconclusive("%s was not seen to list %s (%s) again, but was not watched for the whole bound of %s after it was back (the record ends after %s)",
			text.And(s.Missing), node, address, m.Bound, text.Short(text.Span(back, end)))
	case len(s.Unread) > 0:
		return Inconclusive("default/kubernetes was last seen without %s (%s) in %s, which were not read afterwards for more than %s",
			node, address, text.And(s.Unread), text.Short(facts.Blind))
	}
	return Passed("The address of %s (%s) was back in Endpoints and EndpointSlice %s after the API server was, within %s, and did not leave again.",
		node, address, text.Short(s.Worst), m.Bound).Took(s.Worst)
}
