package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func takeover() definition {
	return definition{Doc{
		Name:       "takeover",
		Guarantee:  "When the active instance of an elected component is lost, a standby on another node, or the same one once it runs again, takes over within the bound, renews its lease and does the work, and the lost one does not hold the lease again.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"component": "the elected component (default: the one that the fault hit)",
			"released":  "the bound where the lost instance gave its lease up, a formula as for the bound (default: the bound)",
		},
	}, judgeTakeover}
}

func judgeTakeover(m *matter) finding {
	component := m.electedComponent()
	effect := m.fault.effect()
	all := leaseStates(m.run, component, 0, m.run.EndAt)
	old, problem := m.holderBefore()
	if problem != nil {
		return *problem
	}
	if two := twoHolders(all); two != nil {
		return failTwoHolders(component, two)
	}

	bound, from, problem := m.releaseBound(all, old, effect)
	if problem != nil {
		return *problem
	}
	limit := bound.Limit

	var first *record.Timed[record.Lease]
	stranger := "" // who held the lease, but is on no node
	last := effect
	seen := 0
	for i, s := range all {
		if s.At < effect {
			continue
		}
		seen++
		last = max(last, s.At)
		switch {
		case s.V.Holder != old.Holder && s.V.Holder != "" && !m.wasNode(holderNode(s.V)):
			stranger = s.V.Holder
		case s.V.Holder != old.Holder && s.V.Holder != "" && first == nil:
			first = &all[i]
		case s.V.Holder == old.Holder && first != nil && newer(s.V, first.V):
			return failed("The instance of %s that was lost must not act again once another has taken over: %s took over %s, and %s held the lease again %s.",
				component, first.V.Holder, at(first.At), old.Holder, at(s.At))
		}
	}
	who := old.Holder
	if stranger != "" {
		who = stranger + ", which is on no node,"
	}
	f := m.bounded(bound)
	switch waited := span(from, last); {
	case seen == 0:
		return f(inconclusive("the record has no state of the lease of %s after the fault", component))
	case first == nil && waited > limit:
		return f(failed("A standby of %s must take over within %s of the %s: none did, %s still held the lease after %s.",
			component, bound, m.fault.what(), who, short(waited)).took(waited).rests(effect, last))
	case first == nil:
		return f(inconclusive("no standby of %s had taken over when its lease was last seen, %s after the %s, which is less than the bound of %s",
			component, short(waited), m.fault.what(), bound))
	}
	took := max(0, span(from, first.At))
	if took > limit {
		return f(failed("A standby of %s must take over within %s of the %s: %s on %s did after %s.",
			component, bound, m.fault.what(), first.V.Holder, holderNode(first.V), short(took)).took(took).rests(effect, first.At))
	}
	if problem := m.idle(component, old, *first); problem != nil {
		return f(problem.took(took))
	}
	released := ""
	if from > effect || bound.Formula != m.bound.Formula {
		released = ", since that had given its lease up"
	}
	return f(passed("%s on %s took over %s from %s %s after the %s, within %s%s, and renewed its lease; %s did not hold it again.",
		first.V.Holder, holderNode(first.V), component, old.Holder, short(took), m.fault.what(), bound, released, old.Holder).took(took).shows(firstAction(m, component, holderNode(first.V), first.At)...))
}

// bounded returns what puts a bound in place of the check's.
func (m *matter) bounded(b Bound) func(finding) finding {
	return func(f finding) finding {
		f.bound = &b
		return f
	}
}

// releaseBound returns the bound of the takeover and what it counts from: where the lost
// instance was seen to give its lease up, as client-go does with ReleaseOnCancel, a standby
// need not wait until it runs out.
func (m *matter) releaseBound(all []record.Timed[record.Lease], old record.Lease, effect record.Nanos) (b Bound, from record.Nanos, problem *finding) {
	formula := m.param("released", "")
	if formula == "" {
		return *m.bound, effect, nil
	}
	b, err := ParseBound(formula, m.settings(m.electedComponent()))
	if err != nil {
		f := inconclusive("the check cannot be judged: parameter released: %v", err)
		return b, 0, &f
	}
	for _, s := range all {
		switch {
		case s.At < m.fault.injected.Called || !newer(s.V, old):
		case s.V.Holder == "" && leaseVersion(s.V) > 0:
			return b, max(effect, s.At), nil
		case s.V.Holder != old.Holder:
			return *m.bound, effect, nil
		}
	}
	return *m.bound, effect, nil
}

// atWork is how long before the fault an instance must have acted, and after its takeover
// the next one may, for there to be work.
const atWork = record.Nanos(10 * time.Second)

// idle says what a new holder did not do until the next fault that may have hit it: renew
// its lease, or act although the one before had enough to do.
func (m *matter) idle(component string, old record.Lease, first record.Timed[record.Lease]) *finding {
	s := m.settings(component)
	until, looked := m.nextHit(component), first.At
	renewed := false
	for _, l := range leaseStates(m.run, component, first.At, until) {
		looked = max(looked, l.At)
		renewed = renewed || !l.V.Renew.Equal(first.V.Renew) && newer(l.V, first.V) && m.wasNode(holderNode(l.V))
	}
	switch watched := span(first.At, looked); {
	case renewed:
	case watched > s["R"]+s["M"]:
		f := failed("Who takes over %s must renew its lease: %s on %s held it from %s on, and did not renew it for %s, longer than its deadline (%s) and the margin.",
			component, first.V.Holder, holderNode(first.V), when(first.At), short(watched), short(s["R"])).rests(first.At, looked)
		return &f
	default:
		f := inconclusive("%s on %s took over %s, and was not seen to renew the lease in the %s for which it was watched",
			first.V.Holder, holderNode(first.V), component, short(watched))
		return &f
	}
	before, after := 0, 0
	d := deedsOf(m.run, component, s["M"])
	for _, act := range d.acts {
		switch {
		case act.Node == holderNode(old) && act.Received >= m.fault.injected.Called-atWork && act.Received < m.fault.injected.Called:
			before++
		case act.Node == holderNode(first.V) && act.Received >= first.At-record.Nanos(s["M"]) && act.Received < until:
			after++
		}
	}
	if before >= enoughProbes && after == 0 && span(first.At, until) > time.Duration(atWork)+s["M"] {
		f := inconclusive("%s on %s took over %s and did nothing in the %s afterwards, though %s had acted %d times in the %s before the %s",
			first.V.Holder, holderNode(first.V), component, short(span(first.At, until)), old.Holder, before, short(time.Duration(atWork)), m.fault.what())
		return &f
	}
	return nil
}

// firstAction tells what an instance changed first after a time, if the record has
// it.
func firstAction(m *matter, component, node string, from record.Nanos) []string {
	for _, act := range deedsOf(m.run, component, m.run.Meta.Settings["M"]).acts {
		if act.Node == node && act.Received > from {
			return []string{"its first action: " + describeAction(act.Action)}
		}
	}
	return nil
}
