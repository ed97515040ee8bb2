package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func activeAgain() Definition {
	return Definition{verdict.Doc{
		Name:       "active-again",
		Guarantee:  "Whatever becomes of the lease or of the holder's way to it, the component is never without an instance that renews it for longer than the bound, and no version of the lease has two holders.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"component": "the elected component (default: the one that the fault hit)",
			"kept":      "true: the fault hits neither the holder nor its lease, and the holder must keep it",
		},
	}, judgeActiveAgain}
}

// judgeActiveAgain measures the times between renewals of the lease, by whatever
// instance, from the fault on, as far as they were looked at before another one hit.
// A holder that is on no node is none.
func judgeActiveAgain(m *facts.Matter) Finding {
	kept := m.Param("kept", "") == "true"
	find := holderBefore
	if kept {
		find = anyHolderBefore
	}
	old, problem := find(m)
	if problem != nil {
		return *problem
	}
	component := m.ElectedComponent()
	from, to := m.Fault.Effect(), m.NextHit(component)
	states := facts.LeaseStates(m.Run, component, 0, to)
	if two := facts.TwoHolders(states); two != nil {
		return failTwoHolders(component, two)
	}
	var before uint64
	var holder, first record.Lease
	for _, s := range states {
		known := m.IsNode(facts.HolderNode(s.V))
		if s.At <= from || s.V.Holder != "" && !known {
			before = max(before, facts.LeaseVersion(s.V))
		}
		if s.At <= from && known {
			holder = s.V
		}
	}
	// A renewal was made between the last time that it was not seen, still, and the
	// first time that it was: the times without one are shown and at most so long.
	renewed, still, looked := from, from, from
	var shown, worst time.Duration
	for _, s := range states {
		if s.At < from {
			continue
		}
		looked = max(looked, s.At)
		if kept && s.V.Holder != old.Holder && facts.Newer(s.V, old) {
			return Failed("The %s must cost no lease: %s on %s held that of %s, and at %s the holder was %q.",
				m.Fault.What(), old.Holder, facts.HolderNode(old), component, text.When(s.At), s.V.Holder).Rests(from, s.At)
		}
		switch v := facts.LeaseVersion(s.V); {
		case v > before && m.IsNode(facts.HolderNode(s.V)) && (s.V.Holder != holder.Holder || !s.V.Renew.Equal(holder.Renew)):
			if first.Holder == "" {
				first = s.V
			}
			shown, worst = max(shown, text.Span(renewed, min(still, s.At))), max(worst, text.Span(renewed, s.At))
			before, renewed, still, holder = v, s.At, s.At, s.V
		case v == 0 || v >= before:
			still = max(still, s.At)
		}
	}
	limit, last := m.Bound.Limit, text.Span(renewed, looked)
	switch {
	case looked == from:
		return Inconclusive("the record has no state of the lease of %s after the fault", component)
	case shown > limit:
		return Failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, then %s on %s did.",
			component, m.Bound, m.Fault.What(), text.Short(shown), first.Holder, facts.HolderNode(first)).Took(shown).Rests(from, looked)
	case last > limit:
		return Failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, which %s had held.",
			component, m.Bound, m.Fault.What(), text.Short(last), old.Holder).Took(last).Rests(renewed, looked)
	case worst > limit:
		return Inconclusive("the lease of %s was not observed often enough to know whether it was without a renewal for more than %s: for %s none was seen",
			component, m.Bound, text.Short(worst))
	case first.Holder == "" || last > m.Settings(component)["R"]:
		return Inconclusive("no instance of %s had renewed its lease for %s when it was last looked at, which is less than the bound of %s",
			component, text.Short(last), m.Bound)
	}
	how := "continued"
	if holder.Holder != old.Holder {
		how = "was active on " + facts.HolderNode(holder) + " afterwards"
	}
	return Passed("%s, active on %s before the %s, %s; its lease was without a renewal for %s at most, within %s; no version of it had two holders.",
		component, facts.HolderNode(old), m.Fault.What(), how, text.Short(worst), m.Bound).Took(worst)
}
