package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func workGoesOn() definition {
	return definition{Doc{
		Name: "work-goes-on",
		Guarantee: "When the active controller manager is lost while work is under way, what is created until another one takes over is reconciled within the bound, " +
			"and no Deployment ever gets more pods than were wanted. " +
			"The time in which only nodes have something to do does not count, if they do it at last and their heartbeats come.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgeWorkGoesOn}
}

func judgeWorkGoesOn(m *matter) finding {
	from, until := m.lastEffect(), m.nextFault(m.fault.healEffect())
	if extra := m.surplus(m.fault.injected.Called, until); extra != nil {
		return *extra
	}
	gap := m.takeover()
	lacks := lacksOf(m.run)
	made := 0
	var longest, unfinished, held *lack
	var took, nodes time.Duration // what the longest took, and the most that nodes did
	silent := m.silence()
	for i := range m.run.Ops {
		op := &m.run.Ops[i].V
		if deploymentOf(op) == "" || op.Type != record.OpCreate || op.Outcome != record.OK || op.Call < m.fault.effect() || op.Return > gap {
			continue
		}
		made++
		for _, l := range lacks {
			if l.part != deploymentOf(op) {
				continue
			}
			if l.to > until {
				l.to, l.open = until, true
			}
			mine, unproven := l.took(from, m.bound.Limit, silent)
			switch {
			case unproven:
				held = l
			case longest == nil || mine > took:
				longest, took = l, mine
			}
			if !unproven {
				nodes = max(nodes, since(from, l.to)-mine)
			}
			if l.open && l != held {
				unfinished = l
			}
			break // the first one is its creation's
		}
	}
	if held != nil && took <= m.bound.Limit {
		return inconclusive("%s", held.says(from))
	}
	if made == 0 || longest == nil {
		return inconclusive("no Deployment was created between the %s and %s, when another instance had taken over or the fault was healed", m.fault.what(), when(gap))
	}
	switch {
	case took > m.bound.Limit:
		return failed("What is created while %s has no active instance must be reconciled within %s of the %s: %s, created by %s, was not after %s: %s.",
			m.fault.injected.Component, m.bound, m.fault.what(), longest.part, when(longest.from), short(took), longest.why).took(took).rests(from, longest.to)
	case unfinished != nil:
		return inconclusive("%s was not yet as it is wanted when it was last looked at, %s after the %s, which is less than the bound of %s: %s",
			unfinished.part, short(since(from, unfinished.to)), m.fault.what(), m.bound, unfinished.why)
	}
	return passed("All %d Deployments that were created while %s had no active instance had their pods within %s of the %s (%s)%s, and no Deployment ever had more pods than wanted.",
		made, m.fault.injected.Component, short(took), m.fault.what(), m.bound, besides(nodes)).took(took)
}

// takeover is when another instance held the lease of the component that was lost; that
// of the healing where none was seen to.
func (m *matter) takeover() record.Nanos {
	for _, l := range leaseStates(m.run, m.fault.injected.Component, m.fault.effect(), m.fault.healed.Called) {
		if node := holderNode(l.V); node != "" && node != m.fault.node() {
			return l.At
		}
	}
	return m.fault.healed.Called
}

// surplus finds a Deployment that got a pod beyond all that may have been wanted: the
// most since it last was as wanted, and M before, in which a controller may have come
// to know of it. Changes count from their call on, whatever came of them.
func (m *matter) surplus(from, to record.Nanos) *finding {
	margin := record.Nanos(m.run.Meta.Settings["M"])
	live := map[string]map[string]bool{} // UIDs of pods by part
	began := map[string][]*lack{}
	for _, l := range lacksOf(m.run) {
		began[l.part] = append(began[l.part], l)
	}
	for i := range m.run.Objects {
		at, o := m.run.Objects[i].At, &m.run.Objects[i].V
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
			if l.from <= at && at <= l.to {
				start = l.from
			}
		}
		if most := m.mostWanted(o.Part, start-margin, at); most >= 0 && len(pods) > most {
			f := failed("No Deployment may get more pods than are wanted when %s was lost: %s got pod %s at %s, its %s one, and %d were wanted at most.",
				m.fault.injected.Component, o.Part, o.Name, when(at), ordinal(len(pods)), most).counted("%d of %d pods", len(pods), most).
				shows(fmt.Sprintf("wanted since %s, when it last was as it is wanted: at most %d", when(start), most))
			return &f
		}
	}
	return nil
}

// mostWanted is the largest number of pods that a Deployment may have been meant to
// have at some time between two others; -1 where nothing tells.
func (m *matter) mostWanted(part string, from, to record.Nanos) int {
	most, before := -1, -1
	for i := range m.run.Ops {
		op := &m.run.Ops[i].V
		if deploymentOf(op) != part || op.Outcome == record.Refused || op.Type == record.OpDelete || op.Call > to {
			continue
		}
		if op.Outcome == record.OK && op.Return <= from {
			before = replicasOf(op)
		} else {
			most = max(most, replicasOf(op))
		}
	}
	for i := range m.run.Objects {
		at, o := m.run.Objects[i].At, &m.run.Objects[i].V
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
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
