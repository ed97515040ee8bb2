package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func stopsActing() definition {
	return definition{Doc{
		Name:       "stops-acting",
		Guarantee:  "An instance that lost its lease changes nothing more once the bound is over, unless it is elected again.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"component": "the elected component (default: the one that the fault hit)",
			"from":      "what the bound counts from: effect (default), or heal, as for an instance that was frozen",
		},
	}, judgeStopsActing}
}

// judgeStopsActing rests on the audit log, as one-actor does: an attempt without
// effect is none, and one that an API server received in time counts as in time.
func judgeStopsActing(m *matter) finding {
	old, problem := m.holderBefore()
	if problem != nil {
		return *problem
	}
	component, node := m.electedComponent(), m.fault.node()
	from, what := m.fault.effect(), "the "+m.fault.what()
	lost := m.lostLease(component, old, m.run.EndAt)
	if m.param("from", "effect") == "heal" {
		from, what = m.fault.healEffect(), "the end of "+what
		lost = m.lostLease(component, old, m.fault.healed.Called)
		if lost == "" {
			return inconclusive("no other instance of %s was seen to take over from %s before %s", component, old.Holder, what)
		}
	}
	d := deedsOf(m.run, component, m.run.Meta.Settings["M"])
	own, known := d.elected(node, m.fault.injected.Called, from)
	switch {
	case !known:
		return inconclusive("the record does not show what %s on %s did before the fault", component, node)
	case own == nil && lost == "":
		return inconclusive("the record does not show that %s lost the lease of %s", old.Holder, component)
	}
	limit := from + record.Nanos(m.bound.Limit)
	end := m.run.EndAt
	if own != nil {
		end = own.Received
	}
	var late *deed
	last, acted, others := from, 0, 0
	for i, act := range d.acts {
		switch {
		case act.Received <= from:
		case act.Node != node:
			others++
		case act.Received >= end:
		case act.Received > limit && late == nil && reachable(m.run, act.Via, limit, act.Received):
			late = &d.acts[i]
		case act.Received <= limit:
			acted++
			last = max(last, act.Received)
		}
	}
	switch {
	case late != nil:
		return failed("The instance of %s on %s must stop acting within %s of %s, since %s had its lease: it acted %s after it, and was not elected again: %s.",
			component, node, m.bound, what, lost, short(span(from, late.Received)), describeAction(late.Action)).
			took(span(from, late.Received)).rests(limit, late.Received)
	case own != nil && own.Received <= limit:
		return passed("The instance of %s on %s was elected again %s after %s.", component, node, short(span(from, own.Received)), what).
			took(span(from, own.Received))
	case span(limit, end) <= 0:
		return inconclusive("the record ends %s after %s, before the bound of %s is over", short(span(from, end)), what, m.bound)
	case others == 0:
		return inconclusive("no other instance of %s did anything after %s, so that there may have been nothing to do", component, what)
	}
	did := "it did nothing more"
	if acted > 0 {
		did = fmt.Sprintf("it acted %d times more, for the last time %s after it", acted, short(span(from, last)))
	}
	return passed("The instance of %s on %s stopped acting within %s of %s: %s, while the others acted %d times.", component, node, m.bound, what, did, others).
		took(span(from, last))
}

// elected returns the first election of a node's instance after from, nil if there is
// none, and whether anything is known of what it did before to.
func (d deeds) elected(node string, to, from record.Nanos) (first *deed, known bool) {
	for i, e := range d.elections {
		if e.Node != node {
			continue
		}
		known = known || e.Completed < to
		if e.Received > from && first == nil {
			first = &d.elections[i]
		}
	}
	return first, known
}

// lostLease returns who was seen to hold the lease instead of its old holder between
// the fault and to, empty if nobody was.
func (m *matter) lostLease(component string, old record.Lease, to record.Nanos) string {
	for _, s := range leaseStates(m.run, component, m.fault.injected.Called, to) {
		if s.V.Holder != "" && s.V.Holder != old.Holder && newer(s.V, old) {
			return s.V.Holder
		}
	}
	return ""
}
