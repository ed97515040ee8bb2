package scenarios

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// longestName is how long the name of a scenario may be.
const longestName = 63

// InTurn returns the scenario as it is run with the node of a number as its victim, in a
// cluster of so many control-plane nodes: what it does to node 1 it does to the victim, to
// node 2 to the next one and so on, and where a role leaves a choice of nodes or can be moved,
// the victim is hit.
func (s *Scenario) InTurn(victim, nodes int) *Scenario {
	turned := *s
	turned.Victim, turned.Of = (victim-1)%nodes+1, s.Metadata.Name
	suffix := fmt.Sprintf("-victim-%d", victim)
	turned.Metadata.Name = strings.TrimRight(s.Metadata.Name[:min(len(s.Metadata.Name), longestName-len(suffix))], "-") + suffix
	by := turned.Victim - 1
	turned.Spec.Timeline = make([]engine.Step, len(s.Spec.Timeline))
	for i, step := range s.Spec.Timeline {
		if step.Inject != nil {
			in := *step.Inject
			in.Target = fault.Shifted(in.Target, by, nodes)
			if f, err := fault.Find(in.Fault); err == nil {
				in.Params = fault.ShiftedParams(f, in.Params, by, nodes)
			}
			step.Inject = &in
		}
		if step.Action != nil {
			a := *step.Action
			words := strings.Split(a.Node, ",")
			for j, word := range words {
				words[j] = fault.Shifted(strings.TrimSpace(word), by, nodes)
			}
			a.Node = strings.Join(words, ",")
			step.Action = &a
		}
		turned.Spec.Timeline[i] = step
	}
	return &turned
}

// Chooses reports whether a fault of the scenario hits one of several nodes that would do as
// well, in a cluster of so many, so that a run with another victim shows something else.
func (s *Scenario) Chooses(nodes int) bool {
	numbers := map[int]bool{}
	for _, step := range s.Spec.Timeline {
		if step.Inject == nil {
			continue
		}
		named, err := fault.Names(step.Inject.Target)
		switch {
		case err != nil: // Validate would have said it
		case named.Role == "any" || named.Role == "follower" || named.Role == "standby":
			return true
		case named.Number > 0:
			numbers[named.Number] = true
		}
	}
	return len(numbers) > 0 && len(numbers) < nodes
}
