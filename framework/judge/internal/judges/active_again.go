package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var activeAgain = Definition{Doc{
	Name:       "active-again",
	Guarantee:  "Whatever happens to the lease or to the holder's connection to it, the lease is never without a renewal for longer than the bound (and, unless it must be kept or is a further one, 2E more for each election of etcd that the fault costs, three at most, if 2E is longer than 2.2P), not counting the time for which the fault itself renews it, no version of it has two holders, and no instance takes it from another identity before it expires.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"component": "the elected component (default: the one that the fault hit), or further: each one that only the description of the cluster names",
		"faults":    "with component further: more faults, so that all together hit the node of each holder",
		"kept":      "true: the fault hits neither the holder nor its lease, and the holder must keep it",
	},
	Values: map[string][]string{"kept": flag},
}, coordinated(judgeActiveAgain)}

func judgeActiveAgain(m *facts.Case) Finding {
	if m.Param("component", "") == "further" {
		return judgeFurtherLeases(m)
	}
	kept := m.Param("kept", "") == "true"
	find := holderBefore
	if kept {
		find = anyHolderBefore
	}
	old, problem := find(m)
	if problem != nil {
		return *problem
	}
	if !kept {
		m = withElection(m, m.ElectedComponent())
	}
	return bounded(*m.Bound)(renewedAgain(m, old, kept))
}

// renewedAgain measures the times between renewals of the lease, by any instance, from the fault on, as
// far as they were observed before the next fault. A holder that is on no node does not count.
func renewedAgain(m *facts.Case, old record.Lease, kept bool) Finding {
	component := m.ElectedComponent()
	from, to := m.Fault.Effect(), m.NextHit(component)
	states := facts.LeaseStates(m.Run, component, 0, to)
	if two := facts.TwoHolders(states); two != nil {
		return failTwoHolders(component, two)
	}
	for _, s := range states {
		if kept && s.At >= from && s.V.Holder != old.Holder && facts.Newer(s.V, old) {
			return Failed("The %s must not cost a holder its lease: %s on %s held that of %s, and at %s the holder was %q.",
				m.Fault.What(), old.Holder, facts.HolderNode(old), component, text.When(s.At), s.V.Holder).Rests(from, s.At)
		}
	}
	if f := takenFromStranger(m, component, states); f != nil {
		return *f
	}
	from = renewedByFault(m, states, from)
	r := renewalsOf(states, from, func(l record.Lease) bool { return m.WasNode(facts.HolderNode(l)) })
	limit := m.Bound.Limit
	switch {
	case r.looked == from:
		return Inconclusive("the record has no state of the lease of %s after the fault", component)
	case r.shown > limit:
		return Failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, then %s on %s did.",
			component, m.Bound, m.Fault.What(), text.Short(r.shown), r.first.Holder, facts.HolderNode(r.first)).Took(r.shown).Rests(from, r.looked)
	case r.last > limit:
		return Failed("An instance of %s must be active again within %s of the %s: for %s none renewed the lease, which %s had held.",
			component, m.Bound, m.Fault.What(), text.Short(r.last), old.Holder).Took(r.last).Rests(r.renewed, r.looked)
	case r.worst > limit:
		return Inconclusive("the lease of %s was not observed often enough to know whether it was without a renewal for more than %s: for %s none was seen",
			component, m.Bound, text.Short(r.worst))
	case r.first.Holder == "" || r.last > m.Settings(component)["R"]:
		return Inconclusive("no instance of %s had renewed its lease for %s when the lease was last seen, which is less than the bound of %s",
			component, text.Short(r.last), m.Bound)
	}
	how := "continued"
	if r.holder.Holder != old.Holder {
		how = "was active on " + facts.HolderNode(r.holder) + " afterwards"
	}
	return Passed("%s, active on %s before the %s, %s; its lease was without a renewal for %s at most, within %s; no version of it had two holders.",
		component, facts.HolderNode(old), m.Fault.What(), how, text.Short(r.worst), m.Bound).Took(r.worst)
}

// renewedByFault returns until when a fault that took the lease was seen to renew it, since no instance
// can take the lease before that ends; from if it never did.
func renewedByFault(m *facts.Case, states []record.Timed[record.Lease], from record.Nanos) record.Nanos {
	if !m.Fault.Injected.Has(record.EffectLease) {
		return from
	}
	for i := 1; i < len(states); i++ {
		old, s := states[i-1].V, states[i]
		if s.At >= from && s.At < m.Fault.Healed.Called && s.V.Holder != "" && s.V.Holder == old.Holder && !s.V.Renew.Equal(old.Renew) && !m.WasNode(facts.HolderNode(s.V)) {
			from = s.At
		}
	}
	return from
}

// takenFromStranger finds an instance that took the lease, before it can have expired, from an identity
// that is on no node and got it by the fault. A standby counts how long the lease lasts from when it
// sees it. API servers that elect the holder go by their own clocks.
func takenFromStranger(m *facts.Case, component string, states []record.Timed[record.Lease]) *Finding {
	called := m.Fault.Injected.Called
	for i := 1; i < len(states); i++ {
		old, s := states[i-1], states[i]
		if old.V.Holder == "" || m.WasNode(facts.HolderNode(old.V)) || old.At < called || s.V.Strategy != "" || !m.WasNode(facts.HolderNode(s.V)) {
			continue
		}
		lasts := min(leaseDuration(old.V), m.Settings(component)["L"])
		if s.At < min(called+record.Nanos(lasts), m.Fault.Healed.Called) {
			return Failed("No instance may take a lease from another identity before it expires: %s on %s took over the lease of %s %s, though %s had it, for %s from %s at the earliest.",
				s.V.Holder, facts.HolderNode(s.V), component, text.At(s.At), old.V.Holder, text.Short(lasts), text.When(called)).
				exhibits(facts.Exhibit("A valid lease was taken", facts.Moment(old.V.Holder, "has the lease", old.At), facts.Blamed(facts.Moment(s.V.Holder, "has the lease", s.At)))).problem()
		}
	}
	return nil
}
