package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func componentsGoOn() definition {
	return definition{Doc{
		Name:       "components-go-on",
		Guarantee:  "When the process watcher of a node is killed, it is started again, and no component of the node ends.",
		Source:     "High Availability Kubernetes Clusters (admin guide), who watches the watcher",
		NeedsFault: true,
	}, judgeComponentsGoOn}
}

// watcherComponent is a node's process watcher in the record.
const watcherComponent = "node-agent"

func judgeComponentsGoOn(m *matter) finding {
	f := m.fault.injected
	if f.Component != watcherComponent {
		return inconclusive("the %s does not hit a process watcher", m.fault.what())
	}
	until := m.untilNext(m.fault.effect())
	before, watched := map[string]record.ProcessState{}, 0
	for _, t := range m.run.Processes {
		p := t.V
		if p.Node != f.Node || p.Component == watcherComponent || p.Error != "" || p.Standby {
			continue
		}
		if t.At < f.Called {
			before[p.Component] = p
			continue
		}
		old, known := before[p.Component]
		switch {
		case !known || old.PID == 0:
		case t.At > until:
			watched++ // it was the same until then, or there would be an entry
		case !sameLife(old, p):
			return failed("Components must go on when their process watcher is killed: %s on %s %s when it was looked at %s, during the %s.",
				p.Component, f.Node, fate(p), when(t.At), m.fault.what()).rests(f.Called, t.At)
		}
	}
	var components []string
	for component, p := range before {
		if p.PID > 0 {
			components = append(components, component)
		}
	}
	slices.Sort(components)
	if len(components) == 0 || watched == 0 && until < m.run.EndAt {
		return inconclusive("the record does not tell of the components on %s before and after the %s", f.Node, m.fault.what())
	}
	return passed("%s on %s went on during the %s, and the process watcher was started again (%s).", and(components), f.Node, m.fault.what(), m.fault.healed.Proof).
		counted("%d components", len(components))
}
