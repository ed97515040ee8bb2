package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var nodeNotReady = Definition{Doc{
	Name: "node-not-ready",
	Guarantee: "A node without power, whose heartbeats are missing, turns NotReady within the bound, " +
		"even if the active controller manager ran on it.",
	Source:     "canonical/microk8s#5386, k3s-io/k3s#4504",
	NeedsFault: true, NeedsBound: true,
}, coordinated(judgeNodeNotReady)}

// judgeNodeNotReady reports whether each node that the fault hit lost its condition Ready
// in time, as the first API server to show it did, and did not regain it without power. An
// object that was deleted is not ready.
func judgeNodeNotReady(m *facts.Case) Finding {
	effect := m.Fault.Effect()
	to := min(m.Fault.Healed.Called, m.NextFault(effect))
	worst, last := effect, ""
	for _, name := range m.Fault.Nodes() {
		at, problem := turnedNotReady(m, name, effect, to)
		if problem != nil {
			return *problem
		}
		if at >= worst {
			worst, last = at, name
		}
	}
	took := text.Span(effect, worst)
	if took > m.Bound.Limit {
		return Failed("A node without power must turn NotReady within %s of the %s: %s did only after %s.",
			m.Bound, m.Fault.What(), last, text.Short(took)).Took(took).Rests(effect, worst)
	}
	return Passed("%s turned NotReady %s after the %s, within %s.", last, text.Short(took), m.Fault.What(), m.Bound).Took(took)
}

// turnedNotReady returns since when a node was not seen to be ready until the second time.
func turnedNotReady(m *facts.Case, name string, effect, to record.Nanos) (turned record.Nanos, problem *Finding) {
	say := func(f Finding) (record.Nanos, *Finding) { return 0, &f }
	nodes := facts.StandingAt(m.Run, m.Fault.Injected.Called).Of(record.ObjectNode, "")
	i := slices.IndexFunc(nodes, func(o record.Object) bool { return o.Name == name })
	switch {
	case len(nodes) == 0:
		return say(Inconclusive("the record shows no node before the %s", m.Fault.What()))
	case i < 0:
		return say(notApplicable("%s is not a Node of the API, so it cannot turn NotReady.", name))
	case nodes[i].Node.Ready != "True":
		return say(Inconclusive("%s was not ready before the %s: Ready was %s", name, m.Fault.What(), nodes[i].Node.Ready))
	}
	beats, last := 0, effect
	for at, o := range record.Each(m.Run.Objects) {
		mine := o.Name == name && !o.Gone
		switch beat := mine && o.Kind == record.ObjectHeartbeat; {
		case at > to:
		case beat && at <= effect:
			beats++
		// What was sent before may be seen a little later.
		case beat && at > effect+record.Nanos(m.Run.Meta.Settings["M"]):
			return say(Inconclusive("a heartbeat of %s came at %s, though it had no power: its heartbeats come from elsewhere", name, text.When(at)))
		case at > effect:
			last = max(last, at)
			switch ready := mine && o.Kind == record.ObjectNode && o.Node.Ready == "True"; {
			case ready:
				turned = 0
			case turned == 0 && o.Kind == record.ObjectNode && o.Name == name:
				turned = at
			}
		}
	}
	watched := text.Span(effect, last)
	switch {
	case turned > 0:
		return turned, nil
	case beats < 2:
		return say(Inconclusive("the record does not show two heartbeats of %s before the %s", name, m.Fault.What()))
	case watched > m.Bound.Limit:
		return say(Failed("A node without power must turn NotReady within %s of the %s: %s was still ready after %s.",
			m.Bound, m.Fault.What(), name, text.Short(watched)).Took(watched).Rests(effect, last))
	}
	return say(Inconclusive("%s was still ready when objects were last seen, %s after the %s, which is less than the bound of %s",
		name, text.Short(watched), m.Fault.What(), m.Bound))
}
