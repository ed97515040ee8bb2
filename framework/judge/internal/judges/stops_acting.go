package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var stopsActing = Definition{Doc{
	Name:       "stops-acting",
	Guarantee:  "An instance that lost its lease changes nothing more after the bound, unless it is elected again.",
	Source:     "Automated HA master deployment",
	Needs:      []record.Access{record.AuditLogs},
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"component": "the elected component (default: the one that the fault hit)",
		"from":      "where the bound starts: effect (default), or heal, as for an instance that was frozen",
	},
	Values: map[string][]string{"from": {"effect", "heal"}},
}, given(holderBefore, judgeStopsActing)}

// judgeStopsActing uses the audit log, as one-actor does: an attempt without effect does not
// count, and one that an API server received in time counts as in time.
func judgeStopsActing(m *facts.Case, old record.Lease) Finding {
	component, node := m.ElectedComponent(), m.Fault.Node()
	from, what := m.Fault.Effect(), "the "+m.Fault.What()
	lost := lostLease(m, component, old, m.Run.EndAt)
	if m.Param("from", "effect") == "heal" {
		from, what = m.Fault.HealEffect(), "the end of "+what
		lost = lostLease(m, component, old, m.Fault.Healed.Called)
		if lost == "" {
			return Inconclusive("no other instance of %s was seen to take over from %s before %s", component, old.Holder, what)
		}
	}
	d := facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"])
	own, known := firstElection(d, node, m.Fault.Injected.Called, from)
	switch {
	case !known:
		return Inconclusive("the record does not show what %s on %s did before the fault", component, node)
	case own == nil && lost == "":
		return Inconclusive("the record does not show that %s lost the lease of %s", old.Holder, component)
	}
	limit := from + record.Nanos(m.Bound.Limit)
	end, read := m.Run.EndAt, m.Run.EndAt
	if own != nil {
		end, read = own.Received, own.At
	}
	var late *facts.Act
	last, acted, others := from, 0, 0
	for i, act := range d.Acts {
		switch {
		case act.Received <= from:
		case act.Node != node:
			others++
		case act.Received >= end:
		case act.Received > limit && late == nil && !m.MayHaveWaited(act, limit):
			late = &d.Acts[i]
		case act.Received <= limit:
			acted++
			last = max(last, act.Received)
		}
	}
	if late != nil {
		if write := d.Unseen(*late, own, m.Run.Meta.Settings["M"]); write != nil {
			return Inconclusive("the clock of the API server on %s does not agree with the harness's, by which %s on %s may have been elected again: %s",
				write.Via, component, node, facts.DescribeAction(write.Action))
		}
	}
	switch {
	case late != nil:
		return Failed("The instance of %s on %s must stop acting within %s of %s, when %s had its lease: it acted %s later, and was not elected again: %s.",
			component, node, m.Bound, what, lost, text.Short(text.Span(from, late.Received)), facts.DescribeAction(late.Action)).
			Took(text.Span(from, late.Received)).Rests(limit, late.Received)
	case own != nil && own.Received <= limit:
		return Passed("The instance of %s on %s was elected again %s after %s.", component, node, text.Short(text.Span(from, own.Received)), what).
			Took(text.Span(from, own.Received))
	case text.Span(limit, end) <= 0:
		return Inconclusive("the record ends %s after %s, before the bound of %s is over", text.Short(text.Span(from, end)), what, m.Bound)
	case others == 0:
		return Inconclusive("no other instance of %s did anything after %s, so there may have been nothing to do", component, what)
	}
	if why := hiddenActs(m, d, node, limit, end, read); why != "" {
		return Inconclusive("whether the instance of %s on %s stopped acting is not known: %s", component, node, why)
	}
	did := "it did nothing more"
	if acted > 0 {
		did = fmt.Sprintf("it acted %s after that, the last time %s later", text.Plural(acted, "time"), text.Short(text.Span(from, last)))
	}
	return Passed("The instance of %s on %s stopped acting within %s of %s: %s, while the others acted %s.", component, node, m.Bound, what, did, text.Plural(others, "time")).
		Took(text.Span(from, last))
}

// hiddenActs says why actions of a node's instance between two times may be unknown; empty if they
// are not. What the audit logs have of that time was read until read.
func hiddenActs(m *facts.Case, d facts.Actions, node string, from, to, read record.Nanos) string {
	in := func(a facts.Act) bool { return !a.Election && a.At > from && a.At <= read }
	for _, a := range d.Doubtful {
		if in(a) && a.Node == node {
			return "the clock of the API server on " + a.Via + " does not agree with the harness's, by which it acted: " + facts.DescribeAction(a.Action)
		}
	}
	for _, a := range d.Unattributed {
		if in(a) {
			return "the source address of a request is not a node's: " + facts.DescribeAction(a.Action)
		}
	}
	if s := m.UnreadLog(facts.Gap{From: from, To: to}); s != "" {
		return "the audit log of the API server on " + s + " was not read to the end, and may contain more actions of that instance"
	}
	return ""
}

// firstElection returns the first election of a node's instance after from, nil if there is none,
// and whether its actions before to are known at all.
func firstElection(d facts.Actions, node string, to, from record.Nanos) (first *facts.Act, known bool) {
	for i, e := range d.Elections {
		if e.Node != node {
			continue
		}
		known = known || e.Completed < to
		if e.Received > from && first == nil {
			first = &d.Elections[i]
		}
	}
	return first, known
}

// lostLease returns which instance was seen to hold the lease instead of its old holder between
// the fault and to, empty if none was.
func lostLease(m *facts.Case, component string, old record.Lease, to record.Nanos) string {
	for _, s := range facts.LeaseStates(m.Run, component, m.Fault.Injected.Called, to) {
		if s.V.Holder != "" && s.V.Holder != old.Holder && facts.Newer(s.V, old) {
			return s.V.Holder
		}
	}
	return ""
}
