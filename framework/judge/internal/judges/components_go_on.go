package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var componentsGoOn = Definition{Doc{
	Name:       "components-go-on",
	Guarantee:  "When the process watcher of a node is killed, it is started again, and no component of the node exits.",
	Source:     "High Availability Kubernetes Clusters (admin guide), who watches the watcher",
	NeedsFault: true,
}, judgeComponentsGoOn}

// watcherComponent is a node's process watcher in the record.
const watcherComponent = "node-agent"

func judgeComponentsGoOn(m *facts.Case) Finding {
	f := m.Fault.Injected
	if f.Component != watcherComponent {
		return Inconclusive("the %s does not hit a process watcher", m.Fault.What())
	}
	until := m.UntilNext(m.Fault.Effect())
	before, watched := map[string]record.ProcessState{}, 0
	unknown, later := map[string]bool{}, map[string]bool{} // components without a report since a failed query, and those with one after until
	for at, p := range record.Each(m.Run.Processes) {
		if p.Node != f.Node || p.Component == watcherComponent || p.Standby {
			continue
		}
		if p.Error != "" {
			unknown[p.Component] = unknown[p.Component] || at >= f.Called && at <= until
			continue
		}
		if at < f.Called {
			before[p.Component] = p
			continue
		}
		old, known := before[p.Component]
		switch {
		case !known || old.PID == 0:
		case at > until:
			watched++
			if !later[p.Component] {
				later[p.Component] = true
				// It was the same when it was last seen, which may have been before until: then only a
				// fault that hits it shows why it exited.
				unseen := p.Before > 0 && p.Before < until && !hitBy(m, p.Node, p.Component, until, at)
				unknown[p.Component] = (unknown[p.Component] || unseen) && !facts.SameLife(old, p)
			}
		case !facts.SameLife(old, p):
			return Failed("Components must continue when their process watcher is killed: %s on %s %s when it was checked at %s, during the %s.",
				p.Component, f.Node, facts.Fate(p), text.When(at), m.Fault.What()).Rests(f.Called, at)
		default:
			unknown[p.Component] = false
		}
	}
	var components []string
	for component, p := range before {
		if p.PID > 0 {
			components = append(components, component)
		}
	}
	slices.Sort(components)
	for _, c := range components {
		if unknown[c] {
			return Inconclusive("the node %s did not report %s again between a failed query, or the last one, and the next fault, so it may have exited because of the %s", f.Node, c, m.Fault.What())
		}
	}
	if len(components) == 0 || watched == 0 && until < m.Run.EndAt {
		return Inconclusive("the record shows nothing about the components on %s before and after the %s", f.Node, m.Fault.What())
	}
	return Passed("%s on %s kept running during the %s, and the process watcher was started again (%s).", text.And(components), f.Node, m.Fault.What(), m.Fault.Healed.Proof).
		number(len(components), "component")
}

// hitBy reports whether a fault that was injected between two times hits a component of a node.
func hitBy(m *facts.Case, node, component string, from, to record.Nanos) bool {
	for _, f := range m.Faults {
		if in := f.Injected; in != nil && in.Called >= from && in.Called <= to && in.Hits(component) && slices.Contains(f.Nodes(), node) {
			return true
		}
	}
	return false
}
