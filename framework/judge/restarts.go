package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func restarts() definition {
	return definition{Doc{
		Name:      "restarts",
		Guarantee: "No component ends or is started anew by itself: only while a fault is in force, or as a late consequence of one.",
		Source:    "High Availability Kubernetes Clusters (admin guide), reliable nodes",
	}, judgeRestarts}
}

// lookedAt is the longest time between two looks at a process on a node that tells:
// the record holds changes only.
const lookedAt = 5 * time.Second

// judgeRestarts looks at the time in which nothing is broken. A fault may end any
// component, by design: an instance of an elected component that cannot renew its
// lease ends itself, up to R after the last renewal, which the healing may have
// come before. What of it comes later is the cluster's own.
func judgeRestarts(m *matter) finding {
	s := m.run.Meta.Settings
	late := record.Nanos(s["R"] + s["P"] + s["M"])
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
		if m.touched(from, p.At, late) {
			excused++
			continue
		}
		return failed("No component may end by itself: %s on %s %s when it was looked at %s, and no fault was in force.",
			p.V.Component, p.V.Node, fate(p.V), at(p.At)).rests(max(old.At, from-late), p.At)
	}
	if len(last) == 0 {
		return notApplicable("The record has no state of a component's process.")
	}
	f := passed("None of %d components ended while nothing was broken.", len(last)).counted("%d components", len(last))
	if excused > 0 {
		f = f.shows(fmt.Sprintf("%d times one did while a fault was in force, or soon after", excused))
	}
	return f
}

// touched tells whether an injection was in force at any time between from and to,
// or less than after before it.
func (m *matter) touched(from, to, after record.Nanos) bool {
	for _, inj := range m.faults {
		first := inj.injected
		if first == nil {
			first = inj.failed
		}
		if first == nil || first.Called > to {
			continue
		}
		if inj.healed == nil || !inj.healed.Proven || from <= inj.healEffect()+after {
			return true
		}
	}
	return false
}
