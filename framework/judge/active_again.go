package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func activeAgain() definition {
	return definition{Doc{
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
func judgeActiveAgain(m *matter) finding {
	kept := m.param("kept", "") == "true"
	find := (*matter).holderBefore
	if kept {
		find = (*matter).anyHolderBefore
	}
	old, problem := find(m)
	if problem != nil {
		return *problem
	}
	component := m.electedComponent()
	from, to := m.fault.effect(), m.nextHit(component)
	states := leaseStates(m.run, component, 0, to)
	if two := twoHolders(states); two != nil {
		return failTwoHolders(component, two)
	}
	var before uint64
	for _, s := range states {
		if s.At <= from || s.V.Holder != "" && !m.isNode(holderNode(s.V)) {
			before = max(before, leaseVersion(s.V))
		}
	}
	// A renewal was made between the last time that it was not seen, still, and the
	// first time that it was: the times without one are shown and at most so long.
	renewed, still, looked := from, from, from
	var shown, worst time.Duration
	var holder, first record.Lease
	for _, s := range states {
		if s.At < from {
			continue
		}
		looked = max(looked, s.At)
		if kept && s.V.Holder != old.Holder && newer(s.V, old) {
			return failed("The %s must cost no lease: %s on %s held that of %s, and at %s the holder was %q.",
				m.fault.what(), old.Holder, holderNode(old), component, when(s.At), s.V.Holder).rests(from, s.At)
		}
		switch v := leaseVersion(s.V); {
		case v > before && m.isNode(holderNode(s.V)):
			if first.Holder == "" {
				first = s.V
			}
			shown, worst = max(shown, span(renewed, min(still, s.At))), max(worst, span(renewed, s.At))
			before, renewed, still, holder = v, s.At, s.At, s.V
		case v == 0 || v >= before:
			still = max(still, s.At)
		}
	}
	limit, last := m.bound.Limit, span(renewed, looked)
	switch {
	case looked == from:
		return inconclusive("the record has no state of the lease of %s after the fault", component)
	case shown > limit:
		return failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, then %s on %s did.",
			component, m.bound, m.fault.what(), short(shown), first.Holder, holderNode(first)).took(shown).rests(from, looked)
	case last > limit:
		return failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, which %s had held.",
			component, m.bound, m.fault.what(), short(last), old.Holder).took(last).rests(renewed, looked)
	case worst > limit:
		return inconclusive("the lease of %s was not looked at often enough to tell whether it was without a renewal for more than %s: for %s none was seen",
			component, m.bound, short(worst))
	case first.Holder == "" || last > m.settings(component)["R"]:
		return inconclusive("no instance of %s had renewed its lease for %s when it was last looked at, which is less than the bound of %s",
			component, short(last), m.bound)
	}
	how := "continued"
	if holder.Holder != old.Holder {
		how = "was active on " + holderNode(holder) + " afterwards"
	}
	return passed("%s, active on %s before the %s, %s; its lease was without a renewal for %s at most, within %s; no version of it had two holders.",
		component, holderNode(old), m.fault.what(), how, short(worst), m.bound).took(worst)
}
