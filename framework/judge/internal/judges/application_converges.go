package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var applicationConverges = Definition{Doc{
	Name: "application-converges",
	Guarantee: "An application that is continuously scaled up and down converges under the fault: each Deployment reaches exactly its desired number of ready pods, " +
		"and each Service lists exactly these, within the bound after the fault or the change, whichever is later. " +
		"Time in which only nodes have work left, containers to start or to stop, does not count if they finish it and their heartbeats arrive.",
	Source:     "High Availability Kubernetes Clusters (the k8petstore)",
	NeedsFault: true, NeedsBound: true,
}, coordinated(judgeApplicationConverges)}

// judgeApplicationConverges measures how long a part of the application stays without a moment at
// which all of it is in its desired state. Changes are a few seconds apart, and each takes a
// second or two, so such a moment comes soon after each.
func judgeApplicationConverges(m *facts.Case) Finding {
	from, to := m.LastEffect(), m.Fault.HealEffect()
	until := m.NextFault(to)
	parts := facts.StandingAt(m.Run, from).Parts()
	if len(parts) == 0 {
		return Inconclusive("the record shows no application when the %s took effect", m.Fault.What())
	}
	changes := 0
	for _, op := range record.Each(m.Run.Ops) {
		if facts.DeploymentOf(op) != "" && op.Outcome == record.OK && op.Call >= m.Fault.Effect() && op.Return <= to {
			changes++
		}
	}
	if changes == 0 {
		return Inconclusive("no change of the application was acknowledged during the %s", m.Fault.What())
	}
	sum := facts.LackSum{Limit: m.Bound.Limit, Silent: m.Silence()}
	var unfinished *facts.Lack
	for _, l := range facts.LacksOf(m.Run) {
		if l.To <= from || l.From >= to {
			continue
		}
		l.From = max(l.From, from)
		// What follows until is up to the next fault.
		if sum.Add(l, l.From, until) && l.Open && unfinished == nil {
			unfinished = l
		}
	}
	worst, took := sum.Worst, sum.Took
	if worst == nil && sum.Held == nil {
		return Inconclusive("no change requested during the %s was seen to be carried out", m.Fault.What())
	}
	switch {
	case took > m.Bound.Limit:
		return Failed("The application must be in its desired state within %s of the %s and of each change: %s was not in it for %s (%s to %s): %s.",
			m.Bound, m.Fault.What(), worst.Part, worst.Length(worst.From), text.When(worst.From), text.When(worst.To), worst.Why).Took(took).Rests(worst.From, worst.To)
	case sum.Held != nil:
		return Inconclusive("%s", sum.Held.Says(sum.Held.From))
	case unfinished != nil:
		return Inconclusive("%s was not yet in its desired state when it was last checked, %s after the %s or the change, which is less than the bound of %s: %s",
			unfinished.Part, text.Short(text.Span(unfinished.From, unfinished.To)), m.Fault.What(), m.Bound, unfinished.Why)
	}
	words := fmt.Sprintf("%d Deployments, changed %d times during the %s, were each in their desired state within %s, ready pods and Services alike; the longest took %s (%s)",
		len(parts), changes, m.Fault.What(), m.Bound, text.Short(took), worst.Part)
	return Passed("%s%s.", words, facts.Besides(sum.Nodes)).Took(took).
		Shows(fmt.Sprintf("%s from %s to %s: finally %s", worst.Part, text.When(worst.From), text.When(worst.To), worst.Why))
}
