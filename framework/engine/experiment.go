package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// Experiment is what Run carries out. Durations that are strings are formulas over the cluster's
// settings, such as "2E + M" or "8s" (see judge.ParseBound), so that an experiment works on
// clusters with other settings.
type Experiment struct {
	// Name is the name of the scenario.
	Name string
	// Traffic is the general traffic.
	Traffic Traffic
	// ProbeInterval is that of the observers; see observe.Config.
	ProbeInterval time.Duration
	// Victim is the number of the node, from 1 in the order of joining, that a target resolves to
	// if its role leaves a choice. Before a fault hits an etcd leader or an active instance, that
	// role is moved to it. With 0, the fault hits whichever node has the role.
	Victim int
	// Timeline are the steps, one after another.
	Timeline []Step
	// Checks are what the record will be judged by.
	Checks []record.Check
}

// Harmless reports whether the experiment injects no fault and changes neither nodes nor members.
func (e Experiment) Harmless() bool {
	return !slices.ContainsFunc(e.Timeline, func(s Step) bool {
		return s.Inject != nil || s.Action != nil && (ChangesNodes(s.Action.Name) || s.Action.Name == "add-member")
	})
}

// Traffic describes the general traffic; zero values are the workload's own
// defaults.
type Traffic struct {
	// Off leaves the traffic out. Observers and their probes stay.
	Off bool `json:"off,omitempty"`
	workload.Settings
}

// Step is one step of a timeline. Exactly one field is set.
type Step struct {
	Inject *Inject `json:"inject,omitempty"`
	// Heal names the injections to heal, all in parallel; a comma separates them.
	Heal string `json:"heal,omitempty"`
	// Wait is how long to do nothing, a formula.
	Wait   string  `json:"wait,omitempty"`
	Until  *Until  `json:"until,omitempty"`
	Action *Action `json:"action,omitempty"`
}

// heals are the injections that the step heals.
func (s Step) heals() []string {
	ids := strings.Split(s.Heal, ",")
	for i := range ids {
		ids[i] = strings.TrimSpace(ids[i])
	}
	return ids
}

// Inject is a step that injects a fault.
type Inject struct {
	Fault  string `json:"fault"`  // name of the fault, such as kill
	Target string `json:"target"` // such as etcd/leader, resolved when the step is reached
	// ID is the name of this injection in later steps and checks.
	ID string `json:"as"`
	// TTL is the time after which the provider heals the fault automatically, a formula; if
	// empty, more than the rest of the timeline can take.
	TTL    string            `json:"ttl,omitempty"`
	Params map[string]string `json:"params,omitempty"`
}

// Until is a step that waits for a condition. It keeps a run short: reaching AtMost is not an
// error, since the judge checks times against bounds.
type Until struct {
	Condition string `json:"condition"` // one of Conditions
	// AtMost is how long to wait, a formula.
	AtMost string `json:"atMost"`
	// Fault names the injection that the condition is about.
	Fault string `json:"fault,omitempty"`
}

// Action is a step that makes its own requests for a check.
type Action struct {
	Name string `json:"name"` // one of Actions
	// Fault names the injection whose node the action is about.
	Fault string `json:"fault,omitempty"`
	// ID is the name of a node change, and of the node that it added, in later steps and checks.
	ID string `json:"as,omitempty"`
	// Node is the node to remove: the name of an added one, or a target such as node/2 or
	// node/leader, also without its first part. If empty, the last one added. Nodes that are lost
	// at the same time are separated by commas.
	Node string `json:"node,omitempty"`
	// To is the version to upgrade the node, or its etcd member, to.
	To string `json:"to,omitempty"`
	// Interrupt is the number of the step after which the change is interrupted, counted from 1; 0
	// for never. The addition of a node is then undone, a change in place finished or, with Undo,
	// taken back.
	Interrupt int  `json:"interrupt,omitempty"`
	Undo      bool `json:"undo,omitempty"`
	// Args are the arguments to restart components with, by component and by flag.
	Args map[string]map[string]string `json:"args,omitempty"`
}

// String describes the step as progress and the record show it.
func (s Step) String() string {
	switch {
	case s.Inject != nil:
		return fmt.Sprintf("inject %s on %s as %s%s", s.Inject.Fault, s.Inject.Target, s.Inject.ID, paramText(s.Inject.Params))
	case s.Heal != "":
		return "heal " + s.Heal
	case s.Wait != "":
		return "wait " + s.Wait
	case s.Until != nil:
		return strings.TrimSpace(fmt.Sprintf("until %s %s", s.Until.Condition, s.Until.Fault)) + ", at most " + s.Until.AtMost
	case s.Action != nil:
		words := []string{"action", s.Action.Name}
		for _, word := range []string{s.Action.Fault, s.Action.Node} {
			if word != "" {
				words = append(words, word)
			}
		}
		if s.Action.To != "" {
			words = append(words, "to", s.Action.To)
		}
		if s.Action.ID != "" {
			words = append(words, "as", s.Action.ID)
		}
		if s.Action.Interrupt > 0 {
			words = append(words, fmt.Sprintf("interrupted after step %d", s.Action.Interrupt))
			if s.Action.Undo {
				words = append(words, "and rolled back")
			}
		}
		return strings.Join(words, " ")
	}
	return "nothing"
}

func paramText(params map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(params) {
		fmt.Fprintf(&b, " %s=%s", name, params[name])
	}
	return b.String()
}
