package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var podsUntouched = Definition{Doc{
	Name:       "pods-untouched",
	Guarantee:  "Running pods of Deployments that no client changes are not touched by the fault: none is deleted, restarted, moved, or turns not ready, and none is added.",
	Source:     "Field experience: what runs does not depend on the control plane",
	NeedsFault: true, NeedsBound: true, // how long they must have been watched
	Params: map[string]string{
		"evictions": "true: only pods that are deleted or moved count, and the fault must have silenced every worker node for longer than the grace period, which is a reason to evict",
	},
	Values: map[string][]string{"evictions": flag},
}, judgePodsUntouched}

func judgePodsUntouched(m *facts.Case) Finding {
	from := m.Fault.Injected.Called
	evictions := m.Param("evictions", "") == "true"
	if evictions {
		if problem := heardOf(m); problem != nil {
			return *problem
		}
	}
	to := m.NextFault(m.Fault.HealEffect())
	before := facts.StandingAt(m.Run, from)
	pods := map[string]record.Object{}
	parts := unchanged(m, before)
	for _, part := range parts {
		for _, p := range before.Of(record.ObjectPod, part) {
			pods[p.UID] = p
		}
	}
	if len(pods) == 0 {
		return Inconclusive("the record shows no running pod of a Deployment that no client changes before the %s", m.Fault.What())
	}
	seen := 0
	for at, o := range record.Each(m.Run.Objects) {
		if at <= from || at > to {
			continue
		}
		if at > m.Fault.HealEffect() {
			seen++
		}
		if o.Kind != record.ObjectPod || !slices.Contains(parts, o.Part) {
			continue
		}
		if evictions {
			if !evicted(pods, o) {
				continue
			}
			if problem := silentAgain(m, pods[o.UID].Pod.Node, at); problem != nil {
				return *problem
			}
		}
		if how := touched(pods, o); how != "" {
			return Failed("Running pods must not be touched by the %s: pod %s on %s, of %s, which no client changed, %s at %s.",
				m.Fault.What(), o.Name, o.Pod.Node, o.Part, how, text.When(at)).Rests(from, at)
		}
	}
	watched := text.Span(from, to)
	switch {
	case seen == 0:
		return Inconclusive("the record shows no state of any object after the %s was healed, so nothing can be said about pods", m.Fault.What())
	case watched < m.Bound.Limit:
		return Inconclusive("the pods were watched for %s, less than %s", text.Short(watched), m.Bound)
	}
	if evictions {
		return Passed("None of the %d running pods of %s, which no client changed, was deleted or moved in the %s from the %s on, though all worker nodes were silent for longer than their grace period of %s.",
			len(pods), text.And(parts), text.Short(watched), m.Fault.What(), text.Short(m.Run.Meta.Settings["G"])).number(len(pods), "pod")
	}
	return Passed("All %d running pods of %s, which no client changed, stayed unchanged, ready and on their nodes, for %s from the %s on.",
		len(pods), text.And(parts), text.Short(watched), m.Fault.What()).number(len(pods), "pod")
}

// heardOf returns why the controller manager had no reason to consider every worker node lost:
// the record shows a heartbeat of one within the grace period.
func heardOf(m *facts.Case) *Finding {
	from, healed := m.Fault.Effect(), m.Fault.HealEffect()
	nodes := m.WorkersAt(from)
	for _, n := range nodes {
		if g, _ := m.HeartbeatGap(n.Name, from, healed, m.NextFault(healed)); text.Span(g.From, g.To) <= m.Run.Meta.Settings["G"] {
			return Inconclusive("%s was silent for %s at most through the %s, which is within the grace period of %s",
				n.Name, text.Short(text.Span(g.From, g.To)), m.Fault.What(), text.Short(m.Run.Meta.Settings["G"])).problem()
		}
	}
	if len(nodes) == 0 {
		return Inconclusive("the record shows no worker node when the %s took effect", m.Fault.What()).problem()
	}
	return nil
}

// silentAgain returns why a pod that was evicted from a node was not evicted for what happened during
// the fault: after it was healed the node was silent for its grace period once more, and then marked.
func silentAgain(m *facts.Case, node string, evicted record.Nanos) *Finding {
	last := m.Fault.HealEffect() // heartbeat
	for at, o := range record.Each(m.Run.Objects) {
		switch {
		case o.Name != node || at < m.Fault.HealEffect() || at > evicted:
		case o.Kind == record.ObjectHeartbeat:
			last = at
		case o.Kind == record.ObjectNode && o.Node.Ready != "True":
			if silent := text.Span(last, at); silent >= m.Run.Meta.Settings["G"] {
				return Inconclusive("a pod on %s was evicted, but the node was silent again for %s (%s to %s) after the %s was healed, longer than its grace period of %s",
					node, text.Short(silent), text.When(last), text.When(at), m.Fault.What(), text.Short(m.Run.Meta.Settings["G"])).problem()
			}
			return nil
		}
	}
	return nil
}

// evicted reports whether an earlier pod is deleted, gone or on another node.
func evicted(before map[string]record.Object, o record.Object) bool {
	old, known := before[o.UID]
	return known && (o.Gone || o.Pod.Deleting || o.Pod.Node != old.Pod.Node)
}

// touched describes what happened to a pod, empty if nothing did.
func touched(before map[string]record.Object, o record.Object) string {
	old, known := before[o.UID]
	switch {
	case !known && o.Gone:
		return ""
	case !known:
		return "was added"
	case o.Gone:
		return "was gone"
	case o.Pod.Deleting:
		return "was being deleted"
	case o.Pod.Node != old.Pod.Node:
		return "was moved there from " + old.Pod.Node
	case o.Pod.Restarts > old.Pod.Restarts:
		return fmt.Sprintf("was restarted (%s in all)", text.Plural(o.Pod.Restarts, "time"))
	case !o.Pod.Ready || o.Pod.Phase != old.Pod.Phase:
		return fmt.Sprintf("was no longer ready (phase %s)", o.Pod.Phase)
	}
	return ""
}

// unchanged returns the Deployments that are in their desired state and that no client changes,
// from the state before until the end of the record.
func unchanged(m *facts.Case, before *record.Standing) (parts []string) {
	changed := map[string]bool{}
	for _, op := range record.Each(m.Run.Ops) {
		// Their creation was earlier, whatever its outcome.
		if op.Type != record.OpCreate {
			changed[facts.DeploymentOf(op)] = true
		}
	}
	for _, d := range before.Of(record.ObjectDeployment, "") {
		if !changed[d.Part] && d.Part != "" && before.Lacks(d.Part, "") == "" {
			parts = append(parts, d.Part)
		}
	}
	return parts
}
