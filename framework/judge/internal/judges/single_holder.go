package judges

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var singleHolder = Definition{Doc{
	Name:      "single-holder",
	Needs:     []record.Access{record.AuditLogs},
	Guarantee: "Each elected component has exactly one holder of its lease, which renews it; all other instances stand by and change nothing. That instances stand by is not judged for additional leases of the cluster's description.",
	Source:    "Automated HA master deployment",
	Params: map[string]string{
		"components": "names of the elected components, separated by commas (default " + facts.DefaultElected + ", and the additional leases that the cluster's description names)",
	},
}, judgeSingleHolder}

func judgeSingleHolder(m *facts.Case) Finding {
	further := facts.FurtherLeases(m.Run)
	components := append(text.SplitList(facts.DefaultElected), further...)
	if named := text.SplitList(m.Param("components", "")); len(named) > 0 {
		components = named
	}
	locks := facts.LockReads(m.Run)
	if components = slices.DeleteFunc(components, func(c string) bool { return locks[c] != nil }); len(components) == 0 {
		return optional("Supervisors elect the active instances: no component has a lease.")
	}
	var held []string
	var open *Finding
	for _, c := range components {
		holder, problem := soleHolder(m, c, slices.Contains(further, c))
		switch {
		case problem == nil:
			held = append(held, fmt.Sprintf("%s by %s", c, holder))
		case problem.Verdict == verdict.Fail:
			return problem.counted("%d of %d components", len(held), len(components))
		case open == nil:
			open = problem
		}
	}
	if open != nil {
		return open.counted("%d of %d components", len(held), len(components))
	}
	return Passed("Each elected component had exactly one holder, which kept renewing its lease: %s.", text.And(held)).
		counted("%d of %d components", len(held), len(components))
}

// soleHolder returns who held a component's lease throughout, or what is wrong. The record has no
// actions of a component of a further lease.
func soleHolder(m *facts.Case, component string, further bool) (string, *Finding) {
	from, to := m.Quiet()
	states := facts.LeaseStates(m.Run, component, from, to)
	first := slices.IndexFunc(states, func(s record.Timed[record.Lease]) bool { return s.V.Holder != "" })
	switch {
	case first < 0 && further:
		return "", Inconclusive("no instance was seen to hold the lease of %s, which the cluster's description names", component).problem()
	case first < 0:
		return "", noHolder(m, component, len(states), from, to).problem()
	case first > 0 && time.Duration(states[first].At-states[0].At) > m.ElectionLimit(component, states[first].V.Strategy != ""):
		// A first election takes no longer than one after the holder was lost.
		return "", noHolder(m, component, first, states[0].At, states[first].At).problem()
	}
	held := states[first:]
	if two := facts.TwoHolders(held); two != nil {
		return "", Failed("%s must have one holder: version %s of its lease was seen with %s (through %s) and with %s (through %s).",
			component, two[0].Revision, two[0].Holder, two[0].Via, two[1].Holder, two[1].Via).problem()
	}
	began := held[0]
	last, renewed := began, began
	for _, s := range held[1:] {
		if s.V.Holder != began.V.Holder || s.V.Transitions != began.V.Transitions {
			return "", Failed("%s must have one holder throughout while nothing is broken: it was %s, and %s was seen %s (transitions %d, then %d).",
				component, began.V.Holder, text.Quoted(s.V.Holder, false), text.At(s.At), began.V.Transitions, s.V.Transitions).Rests(from, s.At).problem()
		}
		if s.V.Renew.After(renewed.V.Renew) {
			renewed = s
		}
		if s.At > last.At {
			last = s
		}
	}
	duration := leaseDuration(began.V)
	watched := time.Duration(last.At - began.At)
	stalled := time.Duration(last.At - renewed.At)
	switch {
	case duration > 0 && stalled > duration:
		return "", Failed("The holder of %s must renew its lease: %s did not renew it for %s, longer than the lease lasts (%s).",
			component, began.V.Holder, text.Short(stalled), text.Short(duration)).Rests(renewed.At, last.At).problem()
	case renewed.At == began.At:
		return "", Inconclusive("the lease of %s, held by %s, was watched for %s and not seen to be renewed", component, began.V.Holder, text.Short(watched)).problem()
	}
	if further {
		return began.V.Holder, nil
	}
	if act := standbyActs(m, component, began.V, began.At, last.At); act != nil {
		return "", Failed("All instances of %s but the holder of its lease must stand by: %s held it throughout, and the one on %s acted %s: %s.",
			component, began.V.Holder, act.Node, text.At(act.Received), facts.DescribeAction(act.Action)).Rests(began.At, act.Received).problem()
	}
	if problem := unknownActs(m, component, began.V, began.At, last.At); problem != "" {
		return "", Inconclusive("whether the other instances of %s stand by is not known: %s", component, problem).problem()
	}
	return began.V.Holder, nil
}

// unknownActs says why the actions of a component's instances between two moments at which one of
// them held its lease are not known; empty if they are. They are known if each API server's audit
// log was read, and if the logs have the holder's actions, with clocks that agree with the
// harness's and source addresses that are nodes'.
func unknownActs(m *facts.Case, component string, held record.Lease, from, to record.Nanos) string {
	d := facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"])
	for _, a := range d.Doubtful {
		if a.Node != facts.HolderNode(held) && !a.Election && a.At >= from && a.At <= to {
			return "the clock of an API server does not agree with the harness's, by which the one on " + a.Node + " acted: " + facts.DescribeAction(a.Action)
		}
	}
	for _, a := range d.Unattributed {
		if a.At >= from && a.At <= to {
			return "the source address of a request of one of them, or of the holder, is not a node's: " + facts.DescribeAction(a.Action)
		}
	}
	if !slices.ContainsFunc(slices.Concat(d.Acts, d.Elections), func(a facts.Act) bool {
		return a.Node == facts.HolderNode(held) && a.Completed >= from && a.Received <= to
	}) {
		return fmt.Sprintf("no audit log contains an action of %s itself while it held the lease for %s", held.Holder, text.Short(text.Span(from, to)))
	}
	if formerActsUntil(m, component, held, from) >= to {
		for _, a := range d.Acts {
			if a.Node != facts.HolderNode(held) && a.Received > from && a.Received < to {
				return fmt.Sprintf("the one on %s acted %s, when it may have held the lease not long before, and was not watched for longer", a.Node, text.At(a.Received))
			}
		}
	}
	if s := facts.SilentLog(m.Run, m.APIServers(), facts.Gap{From: from, To: to}); s != "" {
		return "the audit log of the API server on " + s + " was not read throughout, and may contain actions of theirs"
	}
	return ""
}

// standbyActs returns an action of another instance than the holder, between two
// moments at which it held the lease, or nil.
func standbyActs(m *facts.Case, component string, held record.Lease, from, to record.Nanos) *facts.Act {
	from = formerActsUntil(m, component, held, from)
	for _, act := range facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"]).Acts {
		if act.Node != facts.HolderNode(held) && act.Received > from && act.Received < to && facts.Reachable(m.Run, act.Via, from, act.Received) {
			return &act
		}
	}
	return nil
}

// formerActsUntil returns until when the previous holder of a lease, whose current holder had it
// at from, may act: until its renewal deadline.
func formerActsUntil(m *facts.Case, component string, held record.Lease, from record.Nanos) record.Nanos {
	s := m.Settings(component)
	if held.Acquire.IsZero() || m.Run.Meta.Started.IsZero() {
		return from + record.Nanos(s["R"]+s["M"])
	}
	return max(from, record.Nanos(held.Acquire.Sub(m.Run.Meta.Started)+s["P"]+s["R"]+s["M"]))
}

// noHolder is the finding for a component whose lease no instance held.
func noHolder(m *facts.Case, component string, states int, from, to record.Nanos) Finding {
	acting := facts.Instances(m.Run, component, to)
	// Time enough for one retry, before which an election may be in progress. client-go jitters it by up
	// to a factor of 1.2 more.
	retry, err := verdict.ParseBound("2.2P + M", m.Settings(component))
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	limit := retry.Limit
	other := otherLease(m, component, from, to)
	observed := states > 0
	for _, l := range m.Run.Leases {
		observed = observed || l.At >= from && l.At <= to
	}
	switch {
	case !observed:
		return Inconclusive("the record has no state of any lease")
	case time.Duration(to-from) <= limit:
		return Inconclusive("%s had no holder, but was watched for only %s", component, text.Short(time.Duration(to-from)))
	case len(acting) < 2:
		return Inconclusive("%s had no holder for %s, and the record does not show two instances of it running", component, text.Short(time.Duration(to-from)))
	case other != "":
		return Inconclusive("the instances of %s elect the active one by the lease %s (--leader-elect-resource-name, --leader-elect-resource-namespace), which is not observed", component, other)
	}
	return bounded(retry)(Failed("%s must have exactly one active instance: %d instances act (on %s), and for %s no lease named the active one.",
		component, len(acting), strings.Join(acting, ", "), text.Short(time.Duration(to-from))).Took(time.Duration(to-from)).Rests(from, to))
}

// otherLease returns the lease that an instance of a component was seen to write in a period, if it
// is not the one that is observed; empty if none did.
func otherLease(m *facts.Case, component string, from, to record.Nanos) string {
	for at, v := range record.Each(m.Run.Actions) {
		usual := v.Name == component && v.Namespace == "kube-system"
		if v.Component == component && v.Election && v.Code >= 200 && v.Code <= 299 && v.Name != "" && !usual && at >= from && at <= to {
			return v.Namespace + "/" + v.Name
		}
	}
	return ""
}
