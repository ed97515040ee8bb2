package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func takeover() definition {
	return definition{Doc{
		Name:       "takeover",
		Guarantee:  "When the active instance of an elected component is lost, a standby takes over within the bound, and there are never two holders.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"component": "the elected component (default: the one that the fault hit)",
		},
	}, judgeTakeover}
}

func judgeTakeover(m *matter) finding {
	component := m.electedComponent()
	effect, limit := m.fault.effect(), m.bound.Limit
	all := leaseStates(m.run, component, 0, m.run.EndAt)
	old, problem := m.holderBefore()
	if problem != nil {
		return *problem
	}
	if two := twoHolders(all); two != nil {
		return failTwoHolders(component, two)
	}

	var first *record.Timed[record.Lease]
	last := effect
	seen := 0
	for i, s := range all {
		if s.At < effect {
			continue
		}
		seen++
		last = max(last, s.At)
		switch {
		case s.V.Holder != old.Holder && s.V.Holder != "" && first == nil:
			first = &all[i]
		case s.V.Holder == old.Holder && first != nil && newer(s.V, first.V):
			return failed("The instance of %s that was lost must not act again once another has taken over: %s took over %s, and %s held the lease again %s.",
				component, first.V.Holder, at(first.At), old.Holder, at(s.At))
		}
	}
	switch waited := time.Duration(last - effect); {
	case seen == 0:
		return inconclusive("the record has no state of the lease of %s after the fault", component)
	case first == nil && waited > limit:
		return failed("A standby of %s must take over within %s of the %s: none did, %s still held the lease after %s.",
			component, m.bound, m.fault.what(), old.Holder, short(waited)).took(waited).rests(effect, last)
	case first == nil:
		return inconclusive("no standby of %s had taken over when its lease was last seen, %s after the %s, which is less than the bound of %s",
			component, short(waited), m.fault.what(), m.bound)
	}
	took := time.Duration(first.At - effect)
	if took > limit {
		return failed("A standby of %s must take over within %s of the %s: %s on %s did after %s.",
			component, m.bound, m.fault.what(), first.V.Holder, holderNode(first.V), short(took)).took(took).rests(effect, first.At)
	}
	return passed("%s on %s took over %s from %s %s after the %s, within %s; there were never two holders.",
		first.V.Holder, holderNode(first.V), component, old.Holder, short(took), m.fault.what(), m.bound).took(took).shows(firstAction(m, component, holderNode(first.V), first.At)...)
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

// newer tells whether a lease's state a comes after b.
func newer(a, b record.Lease) bool {
	va, vb := leaseVersion(a), leaseVersion(b)
	if va > 0 && vb > 0 {
		return va > vb
	}
	return true
}
