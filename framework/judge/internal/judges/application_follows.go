package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var applicationFollows = Definition{Doc{
	Name: "application-follows",
	Guarantee: "As long as nothing is broken, an application comes up and follows each change within the bound: each Deployment reaches exactly its desired number of ready pods, " +
		"and each Service lists exactly these. " +
		"Time in which only nodes have work left, containers to start or to stop, does not count if they finish it and their heartbeats arrive.",
	Source:     "High Availability Kubernetes Clusters (the k8petstore); Kubernetes SLOs (pod startup latency: 5 s without pulling images)",
	NeedsBound: true, BeforeFaults: true,
	Params: map[string]string{
		"changes": "how many changes must be seen to be carried out, creations included (default 5)",
	},
}, given(count("changes", 5, 1), judgeApplicationFollows)}

// judgeApplicationFollows covers the time before the first fault. A part that is not in its
// desired state by the first fault, or at the end, counts for as long as that has lasted.
func judgeApplicationFollows(m *facts.Case, least int) Finding {
	from, to := m.Quiet()
	end := facts.LastSeen(m.Run)
	if s := facts.NotUp(m.Run); s != nil {
		end = s.At // the last state was checked again then
	}
	to = min(to, max(from, end))
	sum := facts.LackSum{Limit: m.Bound.Limit, Silent: m.Silence()}
	parts, followed := map[string]bool{}, 0
	for _, l := range facts.LacksOf(m.Run) {
		if l.From < from || l.From >= to {
			continue
		}
		if l.Open {
			l.To = to
		}
		if sum.Add(l, l.From, to) && !l.Open && !l.Superseded {
			parts[l.Part] = true
			followed++
		}
	}
	worst, took := sum.Worst, sum.Took
	switch {
	case worst == nil && sum.Held == nil:
		return notCreated(m, from, to)
	case took > m.Bound.Limit && !hasPlace(m):
		return Inconclusive("no ready node that accepts pods was seen, and no node with a pod, so the application had nowhere to run")
	case took > m.Bound.Limit:
		return Failed("As long as nothing is broken, an application must come up and follow each change within %s: %s was not in its desired state for %s (%s to %s): %s.",
			m.Bound, worst.Part, worst.Length(worst.From), text.When(worst.From), text.When(worst.To), worst.Why).Took(took).Rests(worst.From, worst.To)
	case sum.Held != nil:
		return Inconclusive("%s", sum.Held.Says(sum.Held.From))
	case followed < least:
		return Inconclusive("%s of the application were seen to be carried out before anything was broken, fewer than the %d required for a verdict", text.Plural(followed, "change"), least)
	}
	return Passed("Before anything was broken, an application of %d Deployments came up and followed %d changes, each within %s, ready pods and Services alike; the longest took %s (%s)%s.",
		len(parts), followed, m.Bound, text.Short(took), worst.Part, facts.Besides(sum.Nodes)).Took(took).
		Shows(fmt.Sprintf("%s from %s to %s: finally %s", worst.Part, text.When(worst.From), text.When(worst.To), worst.Why))
}

// hasPlace reports whether there was a place for pods: a ready node that is a worker or accepts
// ordinary pods, or any node to which one was bound.
func hasPlace(m *facts.Case) bool {
	return slices.ContainsFunc(m.Run.Objects, func(t record.Timed[record.Object]) bool {
		o := t.V
		return o.Kind == record.ObjectNode && !o.Gone && o.Node.Ready == "True" && (o.Node.Open || !m.WasNode(o.Name)) || o.Kind == record.ObjectPod && !o.Gone && o.Pod.Node != ""
	})
}

// notCreated reports that no application was created, and the result of the attempt.
// It may be refused for reasons that are not the cluster's.
func notCreated(m *facts.Case, from, to record.Nanos) Finding {
	for _, op := range record.Each(m.Run.Ops) {
		if facts.DeploymentOf(op) != "" && op.Call >= from && op.Call < to {
			return Inconclusive("no Deployment of the application was created before anything was broken: %s", text.Describe(op))
		}
	}
	return Inconclusive("the record shows no application before anything was broken")
}
