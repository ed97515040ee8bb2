package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var availability = Definition{Doc{
	Name:       "availability",
	Guarantee:  "A client of one entrance sees errors for no longer than the bound, on new connections and, unless the check is about these alone, on persistent ones, for requests of each kind that it is about (reads and writes by default). If the fault hits an API server, clients of the entrance must have used it.",
	Source:     "API server HA proposal, section 4.2",
	NeedsFault: true, NeedsBound: true, Coarser: true,
	Params: map[string]string{
		"entrance":    "the entrance to check (default balancer)",
		"kinds":       "kinds of probes, separated by commas: read, quorum-read, write, watch (default " + facts.DefaultKinds + ")",
		"connections": "new for new connections alone (default: persistent ones as well)",
	},
	Values: map[string][]string{"connections": {"new"}},
}, judgeAvailability}

func judgeAvailability(m *facts.Case) Finding {
	entrance := m.Param("entrance", "balancer")
	if !slices.Contains(m.Run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	kinds, problem := probeKinds(m)
	if problem != nil {
		return *problem
	}
	effect, heal := m.Fault.Effect(), m.Fault.Healed.Called
	life, _ := facts.LifeAt(m.Run, entrance, effect)
	var during, before []record.Probe
	var all []record.Probe // while the fault lasted, also on the connections that the check is not about
	for _, pr := range record.Each(m.Run.Probes) {
		if pr.Entrance != entrance || !slices.Contains(kinds, facts.ProbeKind{Kind: pr.Kind}) {
			continue
		}
		if _, there := facts.LifeAt(m.Run, entrance, pr.End); !there {
			continue
		}
		if pr.End >= effect && pr.Start < heal {
			all = append(all, pr)
		}
		switch {
		case !slices.Contains(kinds, facts.ProbeKind{Kind: pr.Kind, Reused: pr.Reused}):
		case pr.Start >= m.Fault.Injected.Called-record.Nanos(facts.QuietPeriod) && pr.End < m.Fault.Injected.Called:
			before = append(before, pr)
		case pr.End >= effect && pr.Start < heal:
			during = append(during, pr)
		}
	}
	slices.SortStableFunc(during, facts.ByStart)
	slices.SortStableFunc(all, facts.ByStart)
	if len(before) == 0 {
		return Inconclusive("nothing probed %s in the %s before the fault", entrance, facts.QuietPeriod)
	}
	for _, p := range before {
		if !p.OK {
			return Inconclusive("probes through %s already failed before the fault: %s", entrance, facts.DescribeProbe(p))
		}
	}
	if missing := facts.MissingProbes(during, kinds, effect); missing != "" {
		return Inconclusive("too few probes through %s while the fault lasted: %s", entrance, missing)
	}

	took, last, lastOK, recovery := errorsIn(during, effect, heal)
	failed := slices.DeleteFunc(slices.Clone(during), func(p record.Probe) bool { return p.OK })
	short := time.Duration(heal-effect) <= m.Bound.Limit
	switch {
	case took > m.Bound.Limit:
		return Failed("A client of %s must not see errors for longer than %s after the %s: the last of %d failed probes ended %s after it (%s).",
			entrance, m.Bound, m.Fault.What(), len(failed), text.Short(took), facts.DescribeProbe(*last)).Took(took).Rests(max(effect, facts.OverloadSince(during, *last, m.Bound.Limit)), last.End).Shows(facts.DescribeProbe(*last)).Shows(facts.DescribeOutages(slices.Concat(before, during))...)
	case last != nil && (lastOK == nil || lastOK.Start < last.Start), short && recovery.lacks() != "":
		return Inconclusive("probes through %s (%s) still failed when the fault was healed after %s, which is less than the bound of %s",
			entrance, recovery.lacks(), text.Short(time.Duration(heal-effect)), m.Bound)
	}
	if hole, from := facts.LongestHole(all, effect, min(heal, effect+record.Nanos(m.Bound.Limit))); hole > max(time.Second, m.Bound.Limit/4) {
		return Inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", entrance, text.Short(hole), text.When(from))
	}
	if missing := facts.Unasked(during, kinds, effect, min(heal, life.Until), m.Bound.Limit); missing != "" {
		return Inconclusive("no %s through %s, which is longer than the bound of %s, so errors may have gone unseen", missing, entrance, m.Bound)
	}
	if f := unused(m, entrance); f != nil {
		return *f
	}
	return Passed("Clients of %s saw errors for %s after the %s (%d of %d probes failed), within %s.",
		entrance, text.Short(took), m.Fault.What(), len(failed), len(during), m.Bound).Took(took).Shows(facts.DescribeOutages(slices.Concat(before, during))...)
}
