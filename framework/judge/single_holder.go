package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func singleHolder() definition {
	return definition{Doc{
		Name:      "single-holder",
		Guarantee: "Each elected component has exactly one holder of its lease, which renews it; all other instances stand by and change nothing.",
		Source:    "Automated HA master deployment",
		Params: map[string]string{
			"components": "names of the elected components, separated by commas (default " + defaultElected + ")",
		},
	}, judgeSingleHolder}
}

func judgeSingleHolder(m *matter) finding {
	components := splitList(m.param("components", defaultElected))
	locks := lockReads(m.run)
	if components = slices.DeleteFunc(components, func(c string) bool { return locks[c] != nil }); len(components) == 0 {
		return notApplicable("Supervisors elect the active instances: no component has a lease.")
	}
	var held []string
	var open *finding
	for _, c := range components {
		holder, problem := m.soleHolder(c)
		switch {
		case problem == nil:
			held = append(held, fmt.Sprintf("%s by %s", c, holder))
		case problem.verdict == Fail:
			return problem.counted("%d of %d components", len(held), len(components))
		case open == nil:
			open = problem
		}
	}
	if open != nil {
		return open.counted("%d of %d components", len(held), len(components))
	}
	return passed("Each elected component had exactly one holder, which kept renewing its lease: %s.", and(held)).
		counted("%d of %d components", len(held), len(components))
}

// soleHolder returns who held a component's lease throughout, or what is wrong.
func (m *matter) soleHolder(component string) (string, *finding) {
	from, to := m.quiet()
	states := leaseStates(m.run, component, from, to)
	// Before the first one is elected there is nothing to judge.
	var held []record.Timed[record.Lease]
	for i, s := range states {
		if s.V.Holder != "" {
			held = states[i:]
			break
		}
	}
	if len(held) == 0 {
		f := m.noHolder(component, len(states), from, to)
		return "", &f
	}
	if two := twoHolders(held); two != nil {
		f := failed("%s must have one holder: version %s of its lease was seen with %s (through %s) and with %s (through %s).",
			component, two[0].Revision, two[0].Holder, two[0].Via, two[1].Holder, two[1].Via)
		return "", &f
	}
	first := held[0]
	last, renewed := first, first
	for _, s := range held[1:] {
		if s.V.Holder != first.V.Holder || s.V.Transitions != first.V.Transitions {
			f := failed("%s must have one holder throughout while nothing is broken: it was %s, and %s was seen %s (transitions %d, then %d).",
				component, first.V.Holder, quoted(s.V.Holder, false), at(s.At), first.V.Transitions, s.V.Transitions).rests(from, s.At)
			return "", &f
		}
		if s.V.Renew.After(renewed.V.Renew) {
			renewed = s
		}
		if s.At > last.At {
			last = s
		}
	}
	duration := time.Duration(first.V.Duration) * time.Second
	watched := time.Duration(last.At - first.At)
	stalled := time.Duration(last.At - renewed.At)
	switch {
	case duration > 0 && stalled > duration:
		f := failed("The holder of %s must renew its lease: %s did not for %s, longer than the lease lasts (%s).",
			component, first.V.Holder, short(stalled), short(duration)).rests(renewed.At, last.At)
		return "", &f
	case renewed.At == first.At:
		f := inconclusive("the lease of %s, held by %s, was watched for %s and not seen to be renewed", component, first.V.Holder, short(watched))
		return "", &f
	}
	if act := m.standbyActs(component, first.V, first.At, last.At); act != nil {
		f := failed("All instances of %s but the holder of its lease must stand by: %s held it throughout, and the one on %s acted %s: %s.",
			component, first.V.Holder, act.Node, at(act.Received), describeAction(act.Action)).rests(first.At, act.Received)
		return "", &f
	}
	if problem := m.unknownActs(component, first.V, first.At, last.At); problem != "" {
		f := inconclusive("whether the other instances of %s stand by is not known: %s", component, problem)
		return "", &f
	}
	return first.V.Holder, nil
}

// unknownActs says why it is not known what the instances of a component did between two
// moments at which one of them held its lease; empty if it is. The audit logs have it if
// they have what the holder did, by clocks that agree with the harness's.
func (m *matter) unknownActs(component string, held record.Lease, from, to record.Nanos) string {
	d := deedsOf(m.run, component, m.run.Meta.Settings["M"])
	for _, a := range d.doubtful {
		if a.Node != holderNode(held) && !a.Election && a.at >= from && a.at <= to {
			return "the clock of an API server does not agree with the harness's, by which the one on " + a.Node + " acted: " + describeAction(a.Action)
		}
	}
	if slices.ContainsFunc(slices.Concat(d.acts, d.elections), func(a deed) bool {
		return a.Node == holderNode(held) && a.Completed >= from && a.Received <= to
	}) {
		return ""
	}
	return fmt.Sprintf("no audit log has what %s itself did while it held the lease for %s", held.Holder, short(span(from, to)))
}

// standbyActs returns an action of another instance than the holder, between two
// moments at which it held the lease, or nil. One that had the lease before may
// have gone on until its renewal deadline.
func (m *matter) standbyActs(component string, held record.Lease, from, to record.Nanos) *deed {
	s := m.settings(component)
	if acquired := held.Acquire.Sub(m.run.Meta.Started); !held.Acquire.IsZero() && !m.run.Meta.Started.IsZero() {
		from = max(from, record.Nanos(acquired+s["P"]+s["R"]+s["M"]))
	} else {
		from += record.Nanos(s["R"] + s["M"])
	}
	for _, act := range deedsOf(m.run, component, s["M"]).acts {
		if act.Node != holderNode(held) && act.Received > from && act.Received < to && reachable(m.run, act.Via, from, act.Received) {
			return &act
		}
	}
	return nil
}

// noHolder is the finding for a component whose lease nobody held.
func (m *matter) noHolder(component string, states int, from, to record.Nanos) finding {
	acting := instances(m.run, component, to)
	// Time enough for one retry, before which an election may be under way.
	retry, err := ParseBound("P + M", m.settings(component))
	if err != nil {
		return inconclusive("the check cannot be judged: %v", err)
	}
	limit := retry.Limit
	observed := states > 0
	for _, l := range m.run.Leases {
		observed = observed || l.At >= from && l.At <= to
	}
	switch {
	case !observed:
		return inconclusive("the record has no state of any lease")
	case time.Duration(to-from) <= limit:
		return inconclusive("%s had no holder, but was watched for only %s", component, short(time.Duration(to-from)))
	case len(acting) < 2:
		return inconclusive("%s had no holder for %s, and the record does not show two instances of it running", component, short(time.Duration(to-from)))
	}
	f := failed("%s must have exactly one active instance: %d instances act (on %s), and for %s no lease said which.",
		component, len(acting), strings.Join(acting, ", "), short(time.Duration(to-from))).took(time.Duration(to-from)).rests(from, to)
	f.bound = &retry
	return f
}
