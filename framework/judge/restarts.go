package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func restarts() definition {
	return definition{Doc{
		Name:      "restarts",
		Invariant: "HA-INV-011",
		Guarantee: "No component ends or is started anew by itself: only while a fault that reaches it is in force, or its node is being changed, or as a late consequence of that.",
		Source:    "High Availability Kubernetes Clusters (admin guide), reliable nodes",
	}, judgeRestarts}
}

// judgeRestarts looks at the time in which nothing that reaches a component is broken. A
// fault may end others than it acts on, by design: an instance of an elected component
// that cannot renew its lease ends itself, up to R after the last renewal, which the
// healing may have come before. What of it comes later is the cluster's own.
func judgeRestarts(m *matter) finding {
	type key struct{ node, component string }
	last := map[key]*record.Timed[record.ProcessState]{}
	silent := map[key]bool{} // the node did not tell since
	excused := 0
	for i := range m.run.Processes {
		p := &m.run.Processes[i]
		k := key{p.V.Node, p.V.Component}
		if p.V.Error != "" {
			silent[k] = true
			continue
		}
		if p.At >= leftAt(m.run, k.node) {
			continue // its node was to leave
		}
		old := last[k]
		last[k] = p
		if old == nil || old.V.PID == 0 || sameLife(old.V, p.V) {
			delete(silent, k)
			continue
		}
		from := old.At
		if !silent[k] {
			from = max(from, p.At-record.Nanos(lookedAt))
		}
		delete(silent, k)
		s := m.settings(p.V.Component)
		late := record.Nanos(s["R"] + s["P"] + s["M"])
		active := m.touching(from, p.At, late)
		if m.reached(active, p.V.Node, p.V.Component) || m.changing(p.V.Node, from, p.At, late) {
			excused++
			continue
		}
		why := "no fault was in force"
		if len(active) > 0 {
			why = "no fault that was in force reaches it"
		}
		return failed("No component may end by itself: %s on %s %s when it was looked at %s, and %s.",
			p.V.Component, p.V.Node, fate(p.V), at(p.At), why).rests(max(old.At, from-late), p.At)
	}
	if len(last) == 0 {
		return notApplicable("The record has no state of a component's process.")
	}
	f := passed("None of %d components ended while nothing was broken.", len(last)).counted("%d components", len(last))
	if excused > 0 {
		f = f.shows(fmt.Sprintf("%d times one did while a fault that reaches it was in force, or its node was being changed, or soon after", excused))
	}
	return f
}

// changing reports whether a node was being upgraded or reconfigured between two times,
// which restarts its components, or had been until late before.
func (m *matter) changing(node string, from, to, late record.Nanos) bool {
	return slices.ContainsFunc(m.run.Changes, func(c record.Timed[record.NodeChange]) bool {
		end := c.V.Effect
		if c.V.Phase == record.NodeFailed {
			end = c.At
		}
		return c.V.Node.Name == node && c.V.Called <= to && from <= end+late
	})
}
