package facts

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Lapse returns the period in which an API server must have been delayed to lose its lease in
// default/kubernetes, and its address with it, between two moments.
func (m *Case) Lapse(from, to record.Nanos) (begin, end record.Nanos) {
	return from - record.Nanos(m.Run.Meta.Settings["T"]), to
}

// Disturbed returns the nodes that other faults hit for longer than the measuring margin between
// two moments: observations through them may be late, which is not the cluster's fault.
func (m *Case) Disturbed(from, to record.Nanos) (nodes []string) {
	margin := m.Run.Meta.Settings["M"]
	for _, other := range m.Faults {
		if other == m.Fault || other.Injected == nil {
			continue
		}
		until := to
		if other.Healed != nil {
			until = min(to, other.HealEffect())
		}
		if time.Duration(until-max(from, other.Injected.Called)) > margin {
			nodes = append(nodes, other.Nodes()...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// HitBetween returns the nodes hit by any fault that was active between two moments; if components
// are named, only by faults that hit one of them.
func (m *Case) HitBetween(from, to record.Nanos, components ...string) (nodes []string) {
	for _, inj := range m.Faults {
		if in := inj.Injected; in != nil && in.Called <= to && (inj.Healed == nil || inj.HealEffect() >= from) &&
			(len(components) == 0 || slices.ContainsFunc(components, in.Hits)) {
			nodes = append(nodes, inj.Nodes()...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// NextHit is when another fault hit the component, its lease, a node or the network
// after this one, or a node was changed, or the end of the record.
func (m *Case) NextHit(component string) record.Nanos {
	effect := m.Fault.Effect()
	return min(m.Run.EndAt, NextDisturbance(m.Run, effect), m.NextInjectionOf(effect, func(f *record.Fault) bool { return f.Hits(component) }))
}

// Together returns the check's fault and all that its parameter faults names.
func (m *Case) Together() []*Injection {
	all := []*Injection{m.Fault}
	for _, id := range text.SplitList(m.Check.Params["faults"]) {
		all = append(all, m.Faults[id])
	}
	return all
}

// Active is the period in which all faults of the check were active.
func (m *Case) Active() (from, to record.Nanos) {
	to = Endless
	for _, inj := range m.Together() {
		from, to = max(from, inj.Effect()), min(to, inj.Healed.Called)
	}
	return from, to
}
