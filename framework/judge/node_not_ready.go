package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func nodeNotReady() definition {
	return definition{Doc{
		Name: "node-not-ready",
		Guarantee: "A node without power, whose heartbeats are missing, turns NotReady within the bound, " +
			"also if the active controller manager ran on it.",
		Source:     "canonical/microk8s#5386, k3s-io/k3s#4504",
		NeedsFault: true, NeedsBound: true,
	}, judgeNodeNotReady}
}

// judgeNodeNotReady reports whether each node that the fault hit lost its condition Ready
// in time, as the first API server to show it did, and did not regain it without power. An
// object that was deleted is not ready.
func judgeNodeNotReady(m *matter) finding {
	effect := m.fault.effect()
	to := min(m.fault.healed.Called, m.nextFault(effect))
	worst, last := effect, ""
	for _, name := range m.fault.nodes() {
		at, problem := m.turnedNotReady(name, effect, to)
		if problem != nil {
			return *problem
		}
		if at >= worst {
			worst, last = at, name
		}
	}
	took := since(effect, worst)
	if took > m.bound.Limit {
		return failed("A node without power must turn NotReady within %s of the %s: %s did after %s.",
			m.bound, m.fault.what(), last, short(took)).took(took).rests(effect, worst)
	}
	return passed("%s turned NotReady %s after the %s, within %s.", last, short(took), m.fault.what(), m.bound).took(took)
}

// turnedNotReady returns since when a node was not seen to be ready until the second time.
func (m *matter) turnedNotReady(name string, effect, to record.Nanos) (turned record.Nanos, problem *finding) {
	say := func(f finding) (record.Nanos, *finding) { return 0, &f }
	nodes := standingAt(m.run, m.fault.injected.Called).Of(record.ObjectNode, "")
	i := slices.IndexFunc(nodes, func(o record.Object) bool { return o.Name == name })
	switch {
	case len(nodes) == 0:
		return say(inconclusive("the record shows no node before the %s", m.fault.what()))
	case i < 0:
		return say(notApplicable("%s is not a Node of the API, so that it cannot turn NotReady.", name))
	case nodes[i].Node.Ready != "True":
		return say(inconclusive("%s was not ready before the %s: Ready was %s", name, m.fault.what(), nodes[i].Node.Ready))
	}
	beats, last := 0, effect
	for j := range m.run.Objects {
		at, o := m.run.Objects[j].At, &m.run.Objects[j].V
		mine := o.Name == name && !o.Gone
		switch beat := mine && o.Kind == record.ObjectHeartbeat; {
		case at > to:
		case beat && at <= effect:
			beats++
		// What was sent before may be seen a little later.
		case beat && at > effect+record.Nanos(m.run.Meta.Settings["M"]):
			return say(inconclusive("a heartbeat of %s came at %s, though it had no power: its heartbeats come from elsewhere", name, when(at)))
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
	watched := since(effect, last)
	switch {
	case turned > 0:
		return turned, nil
	case beats < 2:
		return say(inconclusive("the record does not show two heartbeats of %s before the %s", name, m.fault.what()))
	case watched > m.bound.Limit:
		return say(failed("A node without power must turn NotReady within %s of the %s: %s was still ready after %s.",
			m.bound, m.fault.what(), name, short(watched)).took(watched).rests(effect, last))
	}
	return say(inconclusive("%s was still ready when objects were last seen, %s after the %s, which is less than the bound of %s",
		name, short(watched), m.fault.what(), m.bound))
}
