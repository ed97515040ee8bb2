package judge

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsNeverEmpty() definition {
	return definition{Doc{
		Name:      "endpoints-never-empty",
		Guarantee: "Endpoints and EndpointSlice of default/kubernetes are empty at no moment, and an API server that no fault hits stays listed.",
		Source:    "Bugs in the field: the last API server, or one that starts, cleared the list",
		Params: map[string]string{
			"faults": "faults during which every API server that none of them hits must stay listed, separated by commas (default: the check's fault)",
		},
	}, judgeEndpointsNeverEmpty}
}

func judgeEndpointsNeverEmpty(m *matter) finding {
	all := histories(m.run)
	if missing := unseen(all); len(missing) > 0 {
		return inconclusive("the record has no reading of the %s of default/kubernetes", and(missing))
	}
	states, smallest := 0, -1
	for _, h := range all {
		held := 0 // addresses of the state before
		for _, s := range h.states {
			n := len(s.V.Addresses)
			// However late an API server is: who writes the list is in it.
			if n == 0 && held > 0 {
				return failed("default/kubernetes must never be without an address: %s was empty %s (version %s), after %d were listed.",
					h, at(s.At), s.V.Revision, held)
			}
			if n > 0 && (smallest < 0 || n < smallest) {
				smallest = n
			}
			held = n
			states++
		}
		if held == 0 {
			return inconclusive("%s never held an address", h)
		}
	}
	f := passed("default/kubernetes held an address at every moment, %d at least, as %d states show.", smallest, states).counted("%d addresses", smallest)
	faults := splitList(m.check.Params["faults"])
	if len(faults) == 0 && m.fault != nil {
		faults = []string{m.fault.id}
	}
	if len(faults) == 0 {
		from, to := m.quiet()
		if hole := unwatched(all, m.run.Meta.Entrances, from, to); hole != "" {
			return inconclusive("%s, so that an empty list may have gone unseen", hole)
		}
		return f
	}
	from, to := m.together(faults)
	survivors := m.survivors(from, to)
	if len(survivors) == 0 {
		return inconclusive("the faults in force during %s hit every API server, so that none had to stay listed", and(faults))
	}
	var names []string
	for _, n := range survivors {
		names = append(names, n.Name)
		for _, h := range all {
			if missed := h.misses(n.Address, from, to); missed != nil {
				return failed("An API server that no fault hits must stay in default/kubernetes: %s did not list %s (%s) %s (version %s).",
					h, n.Name, n.Address, at(missed.At), missed.V.Revision).rests(m.lapse(missed.At, missed.At))
			}
		}
	}
	// What is read once the first fault is to be healed tells of the time up to that.
	if hole := unwatched(all, names, from, to+record.Nanos(blind)); hole != "" {
		return inconclusive("%s, so that it may have gone unseen what became of the list while the faults lasted", hole)
	}
	f.sentence = f.sentence[:len(f.sentence)-1] + ", and no API server that was up left it."
	return f
}

// unwatched says of which source nothing was read through any of the entrances for
// too long between two moments; empty where each was read often enough.
func unwatched(all []history, entrances []string, from, to record.Nanos) string {
	for _, source := range sources {
		var seen []record.Nanos
		for _, h := range all {
			for _, s := range h.states {
				if h.source == source && slices.Contains(entrances, h.via) && s.At >= from && s.At <= to {
					seen = append(seen, s.At)
				}
			}
		}
		slices.Sort(seen)
		last := from
		for _, t := range append(seen, to) {
			if span(last, t) > blind {
				return fmt.Sprintf("nothing was read of the %s of default/kubernetes through %s from %s for more than %s", source, and(entrances), when(last), short(blind))
			}
			last = t
		}
	}
	return ""
}

// survivors returns the API servers' nodes that are there from one moment to another
// and that no fault in force between them hits.
func (m *matter) survivors(from, to record.Nanos) (all []record.Node) {
	hit := m.hitBetween(from, to)
	for _, n := range nodeLives(m.run) {
		if n.from <= from && n.until > to && slices.Contains(n.Components, "kube-apiserver") && !slices.Contains(hit, n.Name) {
			all = append(all, n.Node)
		}
	}
	return all
}

// together returns when the first of some faults was called for and when the first
// of them was to be healed.
func (m *matter) together(faults []string) (from, to record.Nanos) {
	from, to = m.run.EndAt, m.run.EndAt
	for inj := range maps.Values(m.faults) {
		if slices.Contains(faults, inj.id) {
			from, to = min(from, inj.injected.Called), min(to, inj.healed.Called)
		}
	}
	return from, to
}

// misses returns the first state between from and to that lacks an address that
// the state before had.
func (h history) misses(address string, from, to record.Nanos) *record.Timed[record.Endpoints] {
	held := false
	for i, s := range h.states {
		lists := slices.Contains(s.V.Addresses, address)
		if held && !lists && s.At >= from && s.At <= to {
			return &h.states[i]
		}
		held = lists
	}
	return nil
}
