package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func steadyState() definition {
	return definition{Doc{
		Name:      "steady-state",
		Invariant: "HA-INV-010",
		Guarantee: "Everything is in its steady state before the experiment, and again within the recovery limit after healing.",
		Source:    "The recovery limit of the catalogue",
	}, judgeSteadyState}
}

func judgeSteadyState(m *matter) finding {
	var before, after *record.Timed[record.Steady]
	for i := range m.run.Steadies {
		s := &m.run.Steadies[i]
		switch {
		case s.V.Phase == "before" && (before == nil || before.V.OK):
			before = s
		case s.V.Phase == "after" && (after == nil || recovered(after.V) && (!recovered(s.V) || s.V.Took > after.V.Took)):
			after = s
		}
	}
	switch {
	case before == nil:
		return inconclusive("the baseline was not checked: the record has no steady-state check before the experiment")
	case !before.V.OK:
		return inconclusive("the baseline was unhealthy: %s", problems(before.V))
	case brokenFromTheStart(m.run) != "":
		return inconclusive("%s", brokenFromTheStart(m.run))
	case after == nil:
		return inconclusive("the record has no steady-state check after the experiment")
	}
	for _, id := range slices.Sorted(maps.Keys(m.faults)) {
		// A fault that may still be in force is not the cluster's doing.
		if inj := m.faults[id]; inj.failed != nil && inj.injected != nil && inj.healed == nil {
			return inconclusive("the healing of fault %q failed, so that it may still be in force: %s", id, inj.failed.Error)
		}
	}
	for _, c := range m.run.Nodes {
		if c.V.Phase == record.NodeFailed {
			return inconclusive("the nodes could not be changed, so that something of the attempt may still be in force: %s", c.V.Error)
		}
	}
	s := after.V
	bound := Bound{Formula: "recovery limit", Inputs: map[string]time.Duration{}, Limit: s.Limit}
	from := after.At - record.Nanos(max(s.Took, s.Limit))
	f := passed("The steady state held before the experiment, and again %s after it, within the recovery limit of %s.", short(s.Took), short(s.Limit))
	switch {
	case !s.OK:
		f = failed("Everything must be back to its steady state within the recovery limit of %s: after %s it was not: %s.",
			short(s.Limit), short(s.Took), problems(s)).rests(from, after.At)
	case s.Took > s.Limit && s.Limit > 0:
		f = failed("Everything must be back to its steady state within the recovery limit of %s: it took %s.",
			short(s.Limit), short(s.Took)).rests(from, after.At)
	}
	f = f.took(s.Took)
	f.bound = &bound
	return f
}

func recovered(s record.Steady) bool { return s.OK && (s.Limit == 0 || s.Took <= s.Limit) }
