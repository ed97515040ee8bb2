package judges

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var restarts = Definition{Doc{
	Name:      "restarts",
	Needs:     []record.Access{record.Processes},
	Invariant: "HA-INV-011",
	Guarantee: "A component exits or restarts only while a fault that reaches it is active, while its node is being changed, or as a late consequence of either. The active instance of an elected component may also lose its lease and exit because the etcd member of its node leads and removes one without power: such a leader may send nothing for 10 s. Where API servers use the members of other nodes too, they and that instance may also exit because they still use that of a node that was lost, for 40 s.",
	Source:    "High Availability Kubernetes Clusters (admin guide), reliable nodes",
}, judgeRestarts}

// judgeRestarts covers the time in which no fault affects a component. A fault may also make
// other components exit, by design: an instance of an elected component that cannot renew its
// lease exits up to R after the last renewal, which may be after the healing. Later exits are the
// cluster's own.
func judgeRestarts(m *facts.Case) Finding {
	type key struct{ node, component string }
	last := map[key]*record.Timed[record.ProcessState]{}
	since := map[key]record.Nanos{}  // when the process was first seen
	silent := map[key]record.Nanos{} // the node has not reported since its last report at that time
	explained := 0
	for i := range m.Run.Processes {
		p := &m.Run.Processes[i]
		k := key{p.V.Node, p.V.Component}
		if p.V.Error != "" {
			if _, known := silent[k]; !known {
				silent[k] = p.V.Before
			}
			continue
		}
		life, there := facts.LifeAt(m.Run, k.node, p.At)
		if !there {
			continue // its node was about to leave, or to join
		}
		old := last[k]
		if old != nil && old.At < life.From {
			old = nil // a process of the node that this one replaced
		}
		last[k] = p
		began := since[k]
		if old == nil || !facts.SameLife(old.V, p.V) {
			since[k] = p.At
		}
		if old == nil || old.V.PID == 0 || facts.SameLife(old.V, p.V) {
			delete(silent, k)
			continue
		}
		from, unseen := silent[k]
		if !unseen {
			from = cmp.Or(p.V.Before, p.At-record.Nanos(facts.LookedAt))
		}
		from = max(from, old.At)
		delete(silent, k)
		s := m.Settings(p.V.Component)
		late := record.Nanos(s["R"] + s["P"] + s["M"])
		active := m.Touching(from, p.At, late)
		exit := facts.Exit{Node: p.V.Node, Component: p.V.Component, Since: began, From: from, To: p.At}
		if m.Reached(active, exit) || m.Stalled(exit) || changing(m, p.V.Node, from, p.At, late) || balancerStopped(m, p.V, from, p.At) {
			explained++
			continue
		}
		why := "no fault was active"
		if len(active) > 0 {
			why = "no active fault reached it"
		}
		return Failed("No component may exit on its own: %s on %s %s when it was checked %s, and %s.",
			p.V.Component, p.V.Node, facts.Fate(p.V), text.At(p.At), why).Rests(max(old.At, from-late), p.At)
	}
	if len(last) == 0 {
		return notApplicable("The record has no state of a component's process.")
	}
	for _, p := range m.Run.Processes {
		k := key{p.V.Node, p.V.Component}
		if before, unseen := silent[k]; unseen && last[k] != nil && m.Stays(k.node) {
			return Inconclusive("whether %s on %s exited is not known: it was last checked %s", k.component, k.node, text.At(max(last[k].At, before)))
		}
	}
	f := Passed("None of %d components exited while nothing was broken.", len(last)).number(len(last), "component")
	if explained > 0 {
		f = f.Shows(fmt.Sprintf("%s, a component exited while a fault that reaches it was active, while its node was being changed, or soon after", text.Plural(explained, "time")))
	}
	return f
}

// balancerStopped reports whether an on-demand load balancer was stopped between two times, because
// only one node was left.
func balancerStopped(m *facts.Case, p record.ProcessState, from, to record.Nanos) bool {
	return p.PID == 0 && slices.ContainsFunc(m.Run.Steps, func(s record.Timed[record.Step]) bool {
		return s.V.Name == record.StepBalancerEnd && s.V.Node == p.Node && s.V.Began <= to && from <= s.V.Done
	})
}

// changing reports whether a node was upgraded or reconfigured between two times, or until late
// before, which restarts its components.
func changing(m *facts.Case, node string, from, to, late record.Nanos) bool {
	return slices.ContainsFunc(m.Run.Changes, func(c record.Timed[record.NodeChange]) bool {
		end := c.V.Effect
		if c.V.Phase == record.NodeFailed {
			end = c.At
		}
		return c.V.Node.Name == node && c.V.Called <= to && from <= end+late
	})
}
