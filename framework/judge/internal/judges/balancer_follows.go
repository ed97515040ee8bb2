package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var balancerFollows = Definition{Doc{
	Name:       "balancer-follows",
	Needs:      []record.Access{record.Processes},
	Guarantee:  "The load balancer runs while there are two or more control-plane nodes, and does not run while there is one: within the bound after each change of nodes, until the next one.",
	Source:     "Automated HA master deployment",
	NeedsBound: true,
	Params:     map[string]string{"changes": "names of the changes to judge, separated by commas (default: all)"},
}, given(nodesChanged, judgeBalancerFollows)}

func judgeBalancerFollows(m *facts.Case, changes []record.NodeChange) Finding {
	if !m.Balanced() {
		return notApplicable("The cluster has no load balancer.")
	}
	var evidence []string
	with, without := 0, 0
	for _, c := range changes {
		from, until := max(c.Called, c.Effect)+record.Nanos(m.Bound.Limit), min(facts.NextChange(m.Run, c.Called), m.Run.EndAt)
		nodes := 0
		for _, life := range facts.NodeLives(m.Run) {
			if life.From <= from && from < life.Until {
				nodes++
			}
		}
		states := balancerStates(m, from, until)
		if len(states) == 0 || from >= until {
			return Inconclusive("it is not known whether the load balancer ran between %s after the %s and the next change", text.Short(m.Bound.Limit), facts.Changing(c)).Shows(evidence...)
		}
		should := nodes > 1
		for _, s := range states {
			if runs := s.V.PID != 0; runs != should {
				return Failed("The load balancer must run while there are two or more control-plane nodes, and only then: with %s after the %s, it %s when it was checked %s.",
					text.Plural(nodes, "control-plane node"), facts.Changing(c), map[bool]string{true: "ran", false: "did not run"}[runs], text.At(max(s.At, from))).
					Rests(c.Called, max(s.At, from)).Shows(evidence...)
			}
		}
		if should {
			with++
		} else {
			without++
		}
		evidence = append(evidence, fmt.Sprintf("after the %s: %d control-plane nodes, the load balancer runs: %t", facts.Changing(c), nodes, should))
	}
	if with == 0 || without == 0 {
		return Inconclusive("the changes led to one node %d times and to several nodes %d times, and both are needed", without, with).Shows(evidence...)
	}
	return Passed("The load balancer ran after each of %d changes that led to two or more control-plane nodes, and did not run after each of %d that led to one.",
		with, without).number(len(changes), "change").Shows(evidence...)
}

// The host of the load balancer and its process, as framework names them.
const (
	balancerHost    = "balancer"
	balancerProcess = "load-balancer"
)

// balancerStates returns the known states of the load balancer's process between two times,
// starting with the state at the first, unless it may have changed by then: the record has only
// changes, and Before is when the previous state was last seen.
func balancerStates(m *facts.Case, from, until record.Nanos) []record.Timed[record.ProcessState] {
	var states []record.Timed[record.ProcessState]
	for _, p := range m.Run.Processes {
		if p.V.Node != balancerHost || p.V.Component != balancerProcess || p.At > until {
			continue
		}
		if p.At <= from || len(states) > 0 && states[0].At <= from && p.V.Before < from && p.V.Before > 0 {
			states = nil
		}
		states = append(states, p)
	}
	return slices.DeleteFunc(states, func(p record.Timed[record.ProcessState]) bool { return p.V.Error != "" })
}
