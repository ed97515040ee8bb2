package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// lapse returns the time in which an API server must have been held up to lose its lease
// in default/kubernetes, and its address with it, between two moments.
func (m *matter) lapse(from, to record.Nanos) (begin, end record.Nanos) {
	return from - record.Nanos(m.run.Meta.Settings["T"]), to
}

// disturbed returns the nodes that other faults hit for longer than the measuring
// margin between two moments: what is seen through them may come late, which is no
// fault of the cluster's.
func (m *matter) disturbed(from, to record.Nanos) (nodes []string) {
	margin := m.run.Meta.Settings["M"]
	for _, other := range m.faults {
		if other == m.fault || other.injected == nil {
			continue
		}
		until := to
		if other.healed != nil {
			until = min(to, other.healEffect())
		}
		if time.Duration(until-max(from, other.injected.Called)) > margin {
			nodes = append(nodes, other.nodes()...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// hitBetween returns the nodes that any fault in force between two moments hits.
func (m *matter) hitBetween(from, to record.Nanos) (nodes []string) {
	for _, inj := range m.faults {
		if inj.injected != nil && inj.injected.Called <= to && (inj.healed == nil || inj.healEffect() >= from) {
			nodes = append(nodes, inj.nodes()...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// nextHit is when another fault hit the component, its lease, a node or the network
// after this one, or the end of the record.
func (m *matter) nextHit(component string) record.Nanos {
	end := m.run.EndAt
	for _, other := range m.faults {
		if in := other.injected; other != m.fault && in != nil && in.Called > m.fault.effect() && (in.Component == component || in.Component == "") {
			end = min(end, in.Called)
		}
	}
	return end
}

// inForce is the time in which the check's fault and all that its parameter faults
// names were in force.
func (m *matter) inForce() (from, to record.Nanos) {
	from, to = m.fault.effect(), m.fault.healed.Called
	for _, id := range splitList(m.check.Params["faults"]) {
		from, to = max(from, m.faults[id].effect()), min(to, m.faults[id].healed.Called)
	}
	return from, to
}
