package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func availability() definition {
	return definition{Doc{
		Name:       "availability",
		Guarantee:  "A client of one entrance sees errors for no longer than the bound, on kept and on new connections, for reads and for writes.",
		Source:     "API server HA proposal, section 4.2",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"entrance": "the entrance to look at (default balancer)",
			"kinds":    "kinds of probes, separated by commas: read, quorum-read, write, watch (default " + defaultKinds + ")",
		},
	}, judgeAvailability}
}

func judgeAvailability(m *matter) finding {
	entrance := m.param("entrance", "balancer")
	if !slices.Contains(m.run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	kinds, problem := m.probeKinds()
	if problem != nil {
		return *problem
	}
	effect, heal := m.fault.effect(), m.fault.healed.Called
	var during, before []record.Probe
	for _, p := range m.run.Probes {
		switch pr := p.V; {
		case pr.Entrance != entrance || !slices.Contains(kinds, pr.Kind) || pr.End >= leftAt(m.run, entrance):
		case pr.Start >= m.fault.injected.Called-record.Nanos(calm) && pr.End < m.fault.injected.Called:
			before = append(before, pr)
		case pr.End >= effect && pr.Start < heal:
			during = append(during, pr)
		}
	}
	slices.SortStableFunc(during, func(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) })
	if len(before) == 0 {
		return inconclusive("nothing probed %s in the %s before the fault", entrance, calm)
	}
	for _, p := range before {
		if !p.OK {
			return inconclusive("probes through %s failed before the fault already: %s", entrance, describeProbe(p))
		}
	}
	if missing := missingProbes(during, kinds, effect); missing != "" {
		return inconclusive("too few probes through %s while the fault lasted: %s", entrance, missing)
	}

	var last, lastOK *record.Probe
	failures := 0
	for i := range during {
		p := &during[i]
		if p.OK && p.Start >= effect && (lastOK == nil || p.Start > lastOK.Start) {
			lastOK = p
		}
		if !p.OK {
			failures++
			if last == nil || p.End > last.End {
				last = p
			}
		}
	}
	took := time.Duration(0)
	if last != nil {
		took = time.Duration(last.End - effect)
	}
	switch {
	case took > m.bound.Limit:
		return failed("A client of %s must see errors for no longer than %s after the %s: the last of %d failed probes ended %s after it (%s).",
			entrance, m.bound, m.fault.what(), failures, short(took), describeProbe(*last)).took(took).rests(max(effect, spell(during, *last, m.bound.Limit)), last.End).shows(describeProbe(*last)).shows(describeOutages(slices.Concat(before, during))...)
	case last != nil && (lastOK == nil || lastOK.Start < last.Start):
		return inconclusive("probes through %s still failed when the fault was healed after %s, which is less than the bound of %s",
			entrance, short(time.Duration(heal-effect)), m.bound)
	}
	if hole, from := longestHole(during, effect, min(heal, effect+record.Nanos(m.bound.Limit))); hole > max(time.Second, m.bound.Limit/4) {
		return inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", entrance, short(hole), when(from))
	}
	if missing := unasked(during, kinds, effect, min(heal, leftAt(m.run, entrance)), m.bound.Limit); missing != "" {
		return inconclusive("no %s through %s, which is longer than the bound of %s, so errors may have gone unseen", missing, entrance, m.bound)
	}
	return passed("Clients of %s saw errors for %s after the %s (%d of %d probes failed), within %s.",
		entrance, short(took), m.fault.what(), failures, len(during), m.bound).took(took).shows(describeOutages(slices.Concat(before, during))...)
}
