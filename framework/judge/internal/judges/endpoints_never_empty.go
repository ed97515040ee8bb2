package judges

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var endpointsNeverEmpty = Definition{Doc{
	Name:      "endpoints-never-empty",
	Guarantee: "Endpoints and EndpointSlice of default/kubernetes are never empty, and an API server that no fault hits stays listed: it is listed before the faults, and within 2I + M in any case.",
	Source:    "Bugs in the field: the last API server, or one that starts, cleared the list",
	Killed:    true,
	Params: map[string]string{
		"faults": "faults during which every API server that none of them hits must stay listed, separated by commas (default: the check's fault)",
	},
}, judgeEndpointsNeverEmpty}

func judgeEndpointsNeverEmpty(m *facts.Case) Finding {
	all := facts.Histories(m.Run)
	if missing := facts.Unseen(all); len(missing) > 0 {
		return Inconclusive("the record has no reading of the %s of default/kubernetes", text.And(missing))
	}
	states, smallest := 0, -1
	for _, h := range all {
		held := 0 // addresses of the previous state
		for _, s := range h.States {
			n := len(s.V.Addresses)
			// Even if an API server is late: the one that writes the list is in it.
			if n == 0 && held > 0 {
				return Failed("default/kubernetes must never be without an address: %s was empty %s (version %s), after %d were listed.",
					h, text.At(s.At), s.V.Revision, held).
					exhibits(facts.Exhibit("default/kubernetes is empty", facts.Blamed(facts.Moment(h.String(), "no address", s.At))))
			}
			if n > 0 && (smallest < 0 || n < smallest) {
				smallest = n
			}
			held = n
			states++
		}
		if held == 0 {
			return Inconclusive("%s never held an address", h)
		}
	}
	f := Passed("default/kubernetes held an address at every moment, at least %d, as %d states show.", smallest, states).number(smallest, "address")
	faults := text.SplitList(m.Check.Params["faults"])
	if len(faults) == 0 && m.Fault != nil {
		faults = []string{m.Fault.ID}
	}
	if len(faults) == 0 {
		from, to := m.Quiet()
		if hole := unwatched(all, m.Run.Meta.Entrances, from, to); hole != "" {
			return Inconclusive("%s, so an empty list may have gone unseen", hole)
		}
		return f
	}
	from, to := together(m, faults)
	survivors := survivors(m, from, to)
	if len(survivors) == 0 {
		return Inconclusive("the faults active during %s hit every API server, so none had to stay listed", text.And(faults))
	}
	starting, err := verdict.ParseBound("2I + M", m.Run.Meta.Settings)
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	var names, before []string
	for _, n := range survivors {
		names = append(names, n.Name)
		for _, h := range all {
			if h.Via == n.Name {
				if took, last := neverListed(h, n.Address, from, to); took > starting.Limit {
					return bounded(starting)(Failed("An API server that no fault hits must be in default/kubernetes: %s did not list %s (%s) for %s from the first of the faults on, longer than %s.",
						h, n.Name, n.Address, text.Short(took), starting).Took(took).Rests(m.Lapse(from, last)))
				}
				// It may have been listed just before that, and read later.
				if listed, _ := h.Lists(n.Address, from+record.Nanos(facts.Blind)); !listed {
					before = append(before, fmt.Sprintf("%s (%s) in %s", n.Name, n.Address, h))
				}
			}
			if missed := misses(h, n.Address, from, to); missed != nil {
				return Failed("An API server that no fault hits must stay in default/kubernetes: %s did not list %s (%s) %s (version %s).",
					h, n.Name, n.Address, text.At(missed.At), missed.V.Revision).Rests(m.Lapse(missed.At, missed.At))
			}
		}
	}
	if len(before) > 0 {
		return Inconclusive("the record does not show that default/kubernetes listed %s when the first of the faults was injected", text.And(before))
	}
	// A reading after the healing of the first fault was requested covers the time up to that.
	if hole := unwatched(all, names, from, to+record.Nanos(facts.Blind)); hole != "" {
		return Inconclusive("%s, so changes of the list may have gone unseen while the faults lasted", hole)
	}
	f.Sentence = f.Sentence[:len(f.Sentence)-1] + ", and every API server that was up stayed listed."
	return f
}

// unwatched names the source that was not read through any of the entrances for too long between
// two moments; empty if each was read often enough.
func unwatched(all []facts.History, entrances []string, from, to record.Nanos) string {
	for _, source := range facts.Sources {
		var seen []record.Nanos
		for _, h := range all {
			for _, s := range h.States {
				if h.Source == source && slices.Contains(entrances, h.Via) && s.At >= from && s.At <= to {
					seen = append(seen, s.At)
				}
			}
		}
		slices.Sort(seen)
		last := from
		for _, t := range append(seen, to) {
			if text.Span(last, t) > facts.Blind {
				return fmt.Sprintf("no state of the %s of default/kubernetes was read through %s from %s for more than %s", source, text.And(entrances), text.When(last), text.Short(facts.Blind))
			}
			last = t
		}
	}
	return ""
}

// survivors returns the API servers' nodes that exist throughout and that no active fault in
// between hits.
func survivors(m *facts.Case, from, to record.Nanos) (all []record.Node) {
	hit := m.HitBetween(from, to)
	for _, n := range facts.NodeLives(m.Run) {
		if n.From <= from && n.Until > to && slices.Contains(n.Components, "kube-apiserver") && !slices.Contains(hit, n.Name) {
			all = append(all, n.Node)
		}
	}
	return all
}

// together returns when the first of some faults was called and when the first of them was to be
// healed.
func together(m *facts.Case, faults []string) (from, to record.Nanos) {
	from, to = m.Run.EndAt, m.Run.EndAt
	for inj := range maps.Values(m.Faults) {
		if slices.Contains(faults, inj.ID) {
			from, to = min(from, inj.Injected.Called), min(to, inj.Healed.Called)
		}
	}
	return from, to
}

// neverListed returns how long after from, up to to, the last state was seen if none since listed an
// address; 0 if one did.
func neverListed(h facts.History, address string, from, to record.Nanos) (took time.Duration, last record.Nanos) {
	for _, s := range h.Between(from, to) {
		if slices.Contains(s.V.Addresses, address) {
			return 0, 0
		}
		last = max(last, s.At)
	}
	return text.Span(from, last), last
}

// misses returns the first state between from and to without an address that the previous state
// had.
func misses(h facts.History, address string, from, to record.Nanos) *record.Timed[record.Endpoints] {
	held := false
	for i, s := range h.States {
		lists := slices.Contains(s.V.Addresses, address)
		if held && !lists && s.At >= from && s.At <= to {
			return &h.States[i]
		}
		held = lists
	}
	return nil
}
