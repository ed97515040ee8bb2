package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var takeover = Definition{Doc{
	Name:       "takeover",
	Guarantee:  "When the active instance of an elected component is lost, a standby on another node, or the same one once it runs again, takes over within the bound (and 2E more for each election of etcd that the fault costs, three at most, if 2E is longer than 2.2P), renews its lease and does the work, and the lost one does not hold the lease again.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true, Coarser: true,
	Params: map[string]string{
		"component": "the elected component (default: the one that the fault hit)",
		"faults":    "further injections, separated by commas, that must have taken effect",
		"released":  "the bound if the lost instance released its lease, a formula as for the bound (default: the bound)",
	},
}, coordinated(judgeTakeover)}

func judgeTakeover(m *facts.Case) Finding {
	component := m.ElectedComponent()
	m = withElection(m, component)
	effect := m.Fault.Effect()
	all := facts.LeaseStates(m.Run, component, 0, m.Run.EndAt)
	old, problem := holderBefore(m)
	if problem != nil {
		return *problem
	}
	if two := facts.TwoHolders(all); two != nil {
		return failTwoHolders(component, two)
	}

	bound, from, problem := releaseBound(m, all, old, effect)
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
		case s.V.Holder != old.Holder && s.V.Holder != "" && !m.WasNode(facts.HolderNode(s.V)):
			stranger = s.V.Holder
		case s.V.Holder != old.Holder && s.V.Holder != "" && first == nil:
			first = &all[i]
		case s.V.Holder == old.Holder && first != nil && facts.Newer(s.V, first.V):
			return Failed("The instance of %s that was lost must not act again once another has taken over: %s took over %s, and %s held the lease again %s.",
				component, first.V.Holder, text.At(first.At), old.Holder, text.At(s.At))
		}
	}
	who := old.Holder
	if stranger != "" {
		who = stranger + ", which is on no node,"
	}
	f := bounded(bound)
	switch waited := text.Span(from, last); {
	case seen == 0:
		return f(Inconclusive("the record has no state of the lease of %s after the fault", component))
	case first == nil && waited > limit:
		return f(Failed("A standby of %s must take over within %s of the %s: none did; %s still held the lease after %s.",
			component, bound, m.Fault.What(), who, text.Short(waited)).Took(waited).Rests(effect, last))
	case first == nil:
		return f(Inconclusive("no standby of %s had taken over when its lease was last seen, %s after the %s, which is less than the bound of %s",
			component, text.Short(waited), m.Fault.What(), bound))
	}
	took := max(0, text.Span(from, first.At))
	if took > limit {
		return f(Failed("A standby of %s must take over within %s of the %s: %s on %s took over only after %s.",
			component, bound, m.Fault.What(), first.V.Holder, facts.HolderNode(first.V), text.Short(took)).Took(took).Rests(effect, first.At))
	}
	if problem := idle(m, component, old, *first); problem != nil {
		if problem.Bound == nil {
			*problem = f(problem.Took(took))
		}
		return *problem
	}
	released := ""
	if from > effect || bound.Formula != m.Bound.Formula {
		released = ", since the previous holder had released its lease"
	}
	return f(Passed("%s on %s took over %s from %s %s after the %s, within %s%s, and renewed its lease; %s did not hold it again.",
		first.V.Holder, facts.HolderNode(first.V), component, old.Holder, text.Short(took), m.Fault.What(), bound, released, old.Holder).Took(took).Shows(firstAction(m, component, facts.HolderNode(first.V), first.At)...))
}

// releaseBound returns the bound of the takeover and its start: if the lost instance was seen to
// release its lease, as client-go does with ReleaseOnCancel, a standby need not wait until it
// expires.
func releaseBound(m *facts.Case, all []record.Timed[record.Lease], old record.Lease, effect record.Nanos) (b verdict.Bound, from record.Nanos, problem *Finding) {
	formula := m.Param("released", "")
	if formula == "" {
		return *m.Bound, effect, nil
	}
	b, err := verdict.ParseBound(formula, m.Settings(m.ElectedComponent()))
	if err != nil {
		return b, 0, Inconclusive("the check cannot be judged: parameter released: %v", err).problem()
	}
	b = m.Coordinated(b)
	for _, s := range all {
		switch {
		case s.At < m.Fault.Injected.Called || !facts.Newer(s.V, old):
		case s.V.Holder == "" && record.Number(s.V.Revision) > 0:
			return b, max(effect, s.At), nil
		case s.V.Holder != old.Holder:
			return *m.Bound, effect, nil
		}
	}
	return *m.Bound, effect, nil
}

// atWork is how long before the fault an instance must have acted, and after its takeover
// the next one may, for there to be work.
const atWork = record.Nanos(10 * time.Second)

// idle says what a new holder failed to do before the next fault that may have hit it: renew its
// lease, or act although the previous one had enough to do.
func idle(m *facts.Case, component string, old record.Lease, first record.Timed[record.Lease]) *Finding {
	s := m.Settings(component)
	until, looked := m.NextHit(component), first.At
	renewed := false
	for _, l := range facts.LeaseStates(m.Run, component, first.At, until) {
		if !l.V.Renew.Equal(first.V.Renew) && facts.Newer(l.V, first.V) && m.WasNode(facts.HolderNode(l.V)) {
			// Another instance may take over soon. If it does after the deadline only, this one
			// did not renew in time.
			renewed = l.V.Holder == first.V.Holder || text.Span(first.At, looked) <= s["R"]+s["M"]
			break
		}
		looked = max(looked, l.At)
	}
	renewal, err := verdict.ParseBound("R + M", s)
	switch watched := text.Span(first.At, looked); {
	case renewed:
	case err != nil:
		return Inconclusive("the record does not show how often %s renews its lease: %v", component, err).problem()
	case watched > renewal.Limit:
		return bounded(renewal)(Failed("An instance that takes over %s must renew its lease within %s: %s on %s held it from %s on, and did not renew it for %s.",
			component, renewal, first.V.Holder, facts.HolderNode(first.V), text.When(first.At), text.Short(watched)).Took(watched).Rests(first.At, looked)).problem()
	default:
		return Inconclusive("%s on %s took over %s, and was not seen to renew the lease in the %s for which it was watched",
			first.V.Holder, facts.HolderNode(first.V), component, text.Short(watched)).problem()
	}
	before, after := 0, 0
	d := facts.ActionsOf(m.Run, component, s["M"])
	for _, act := range d.Acts {
		switch {
		case act.Node == facts.HolderNode(old) && act.Received >= m.Fault.Injected.Called-atWork && act.Received < m.Fault.Injected.Called:
			before++
		case act.Node == facts.HolderNode(first.V) && act.Received >= first.At-record.Nanos(s["M"]) && act.Received < until:
			after++
		}
	}
	if before >= facts.EnoughProbes && after == 0 && text.Span(first.At, until) > time.Duration(atWork)+s["M"] {
		return Inconclusive("%s on %s took over %s and did nothing in the %s afterwards, though %s had acted %d times in the %s before the %s",
			first.V.Holder, facts.HolderNode(first.V), component, text.Short(text.Span(first.At, until)), old.Holder, before, text.Short(time.Duration(atWork)), m.Fault.What()).problem()
	}
	return nil
}

// firstAction reports what an instance changed first after a time, if the record has
// it.
func firstAction(m *facts.Case, component, node string, from record.Nanos) []string {
	for _, act := range facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"]).Acts {
		if act.Node == node && act.Received > from {
			return []string{"its first action: " + facts.DescribeAction(act.Action)}
		}
	}
	return nil
}
