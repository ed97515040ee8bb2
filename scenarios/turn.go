package scenarios

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// longestName is the maximum length of a scenario's name.
const longestName = 63

// InTurn returns the scenario with the node of a number as its victim, in a cluster with that
// many control-plane nodes: faults for node 1 hit the victim, those for node 2 the next one, and
// so on. If a role leaves a choice of nodes or can be moved, the victim is hit. Once the scenario
// has lost a node, numbers count the nodes that are left, and stay.
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
				word = strings.TrimSpace(word)
				if _, err := strconv.Atoi(word); err == nil {
					word = "node/" + word
				}
				words[j] = fault.Shifted(word, by, nodes)
			}
			a.Node = strings.Join(words, ",")
			step.Action = &a
			if engine.LosesNodes(a.Name) {
				by = 0
			}
		}
		turned.Spec.Timeline[i] = step
	}
	return &turned
}

// Chooses reports whether a fault of the scenario hits one of several equivalent nodes, in a
// cluster with that many, so that a run with another victim shows something else.
func (s *Scenario) Chooses(nodes int) bool {
	numbers := map[int]bool{}
	for _, step := range s.Spec.Timeline {
		if step.Inject == nil {
			continue
		}
		named, err := fault.Names(step.Inject.Target)
		switch {
		case err != nil: // Validate reports it
		case named.Role == "any" || named.Role == "follower" || named.Role == "standby":
			return true
		case named.Number > 0:
			numbers[named.Number] = true
		}
	}
	return len(numbers) > 0 && len(numbers) < nodes
}

// MissesNodes reports whether the scenario is about each node and does not hit each of that many.
func (s *Scenario) MissesNodes(nodes int) bool { return s.Spec.EachNode && s.Chooses(nodes) }
