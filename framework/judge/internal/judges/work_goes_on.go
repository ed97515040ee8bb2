package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var workGoesOn = Definition{Doc{
	Name: "work-goes-on",
	Guarantee: "When the active controller manager is lost while work is under way, Deployments created until another one takes over are reconciled within the bound, " +
		"and no Deployment ever has more pods than wanted. " +
		"Time in which only nodes have work left does not count if they finish it and their heartbeats arrive.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true,
}, coordinated(judgeWorkGoesOn)}

func judgeWorkGoesOn(m *facts.Case) Finding {
	from, until := m.LastEffect(), m.NextFault(m.Fault.HealEffect())
	if extra := surplus(m, m.Fault.Injected.Called, until); extra != nil {
		return *extra
	}
	gap := takeoverOf(m)
	lacks := facts.LacksOf(m.Run)
	made := 0
	sum := facts.LackSum{Limit: m.Bound.Limit, Silent: m.Silence()}
	var unfinished *facts.Lack
	for _, op := range record.Each(m.Run.Ops) {
		if facts.DeploymentOf(op) == "" || op.Type != record.OpCreate || op.Outcome != record.OK || op.Call < m.Fault.Effect() || op.Return > gap {
			continue
		}
		made++
		for _, l := range lacks {
			if l.Part != facts.DeploymentOf(op) {
				continue
			}
			if sum.Add(l, from, until) && l.Open {
				unfinished = l
			}
			break // the first one is the creation
		}
	}
	longest, took := sum.Worst, sum.Took
	if sum.Held != nil && took <= m.Bound.Limit {
		return Inconclusive("%s", sum.Held.Says(from))
	}
	if made == 0 || longest == nil {
		return Inconclusive("no Deployment was created between the %s and %s, when another instance had taken over or the fault was healed", m.Fault.What(), text.When(gap))
	}
	switch {
	case took > m.Bound.Limit:
		return Failed("Deployments created while %s has no active instance must be reconciled within %s of the %s: %s, created by %s, had not been reconciled after %s: %s.",
			m.Fault.Injected.Component, m.Bound, m.Fault.What(), longest.Part, text.When(longest.From), longest.Length(from), longest.Why).Took(took).Rests(from, longest.To)
	case unfinished != nil:
		return Inconclusive("%s was not yet in its desired state when it was last checked, %s after the %s, which is less than the bound of %s: %s",
			unfinished.Part, text.Short(text.Span(from, unfinished.To)), m.Fault.What(), m.Bound, unfinished.Why)
	}
	return Passed("All %d Deployments that were created while %s had no active instance had their pods within %s of the %s (%s)%s, and no Deployment ever had more pods than wanted.",
		made, m.Fault.Injected.Component, text.Short(took), m.Fault.What(), m.Bound, facts.Besides(sum.Nodes)).Took(took)
}

// takeoverOf is when another instance held the lease of the lost component, or the time of the
// healing if none was seen to.
func takeoverOf(m *facts.Case) record.Nanos {
	for _, l := range facts.LeaseStates(m.Run, m.Fault.Injected.Component, m.Fault.Effect(), m.Fault.Healed.Called) {
		if node := facts.HolderNode(l.V); node != "" && node != m.Fault.Node() {
			return l.At
		}
	}
	return m.Fault.Healed.Called
}

// surplus finds a Deployment with a pod beyond all that may have been wanted: the most since it
// was last in its desired state, and M before, in which a controller may have learned of it.
// Changes count from their call on, whatever their outcome.
func surplus(m *facts.Case, from, to record.Nanos) *Finding {
	margin := record.Nanos(m.Run.Meta.Settings["M"])
	live := map[string]map[string]bool{} // UIDs of pods by part
	began := map[string][]*facts.Lack{}
	for _, l := range facts.LacksOf(m.Run) {
		began[l.Part] = append(began[l.Part], l)
	}
	for at, o := range record.Each(m.Run.Objects) {
		if o.Kind != record.ObjectPod || o.Part == "" || at > to {
			continue
		}
		if live[o.Part] == nil {
			live[o.Part] = map[string]bool{}
		}
		pods := live[o.Part]
		if o.Gone || o.Pod.Deleting || o.Pod.Phase == "Failed" || o.Pod.Phase == "Succeeded" {
			delete(pods, o.UID)
			continue
		}
		if pods[o.UID] {
			continue
		}
		pods[o.UID] = true
		if at < from {
			continue
		}
		start := at
		for _, l := range began[o.Part] {
			if l.From <= at && at <= l.To {
				start = l.From
			}
		}
		if most := mostWanted(m, o.Part, start-margin, at); most >= 0 && len(pods) > most {
			return Failed("No Deployment may have more pods than wanted after %s was lost: %s, pod %s was the %s of %s, although at most %d were wanted.",
				m.Fault.Injected.Component, text.At(at), o.Name, ordinal(len(pods)), o.Part, most).counted("%d of %d pods", len(pods), most).
				Shows(fmt.Sprintf("wanted since %s, when it last was in its desired state: at most %d", text.When(start), most)).problem()
		}
	}
	return nil
}

// mostWanted is the largest number of pods that a Deployment may have been set to between two
// times; -1 if the record does not show it.
func mostWanted(m *facts.Case, part string, from, to record.Nanos) int {
	most, before := -1, -1
	for _, op := range record.Each(m.Run.Ops) {
		if facts.DeploymentOf(op) != part || op.Outcome == record.Refused || op.Type == record.OpDelete || op.Call > to {
			continue
		}
		if op.Outcome == record.OK && op.Return <= from {
			before = facts.ReplicasOf(op)
		} else {
			most = max(most, facts.ReplicasOf(op))
		}
	}
	for at, o := range record.Each(m.Run.Objects) {
		switch {
		case o.Kind != record.ObjectDeployment || o.Part != part || at > to:
		case at <= from:
			before = o.Deployment.Wanted
		default:
			most = max(most, o.Deployment.Wanted)
		}
	}
	return max(most, before)
}

func ordinal(n int) string {
	suffix := "th"
	if n%100/10 != 1 && n%10 < 4 {
		suffix = []string{"th", "st", "nd", "rd"}[n%10]
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
