package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func applicationConverges() definition {
	return definition{Doc{
		Name: "application-converges",
		Guarantee: "An application that is scaled up and down all the time converges under the fault: each Deployment comes to have exactly the ready pods that are wanted, " +
			"and each Service to list exactly these, within the bound of the fault or of the change, whichever is later. " +
			"The time in which only nodes have something to do, containers to start or to end, does not count, if they do it at last and their heartbeats come.",
		Source:     "High Availability Kubernetes Clusters (the k8petstore)",
		NeedsFault: true, NeedsBound: true,
	}, judgeApplicationConverges}
}

// judgeApplicationConverges measures for how long a part of the application stays
// without a moment at which all of it is as wanted. Changes come a few seconds apart, and
// each is carried out in a second or two, so that there is such a moment soon after each.
func judgeApplicationConverges(m *matter) finding {
	from, to := m.lastEffect(), m.fault.healEffect()
	until := m.nextFault(to)
	parts := standingAt(m.run, from).Parts()
	if len(parts) == 0 {
		return inconclusive("the record shows no application when the %s took effect", m.fault.what())
	}
	changes := 0
	for i := range m.run.Ops {
		if op := &m.run.Ops[i].V; deploymentOf(op) != "" && op.Outcome == record.OK && op.Call >= m.fault.effect() && op.Return <= to {
			changes++
		}
	}
	if changes == 0 {
		return inconclusive("no change of the application was acknowledged during the %s", m.fault.what())
	}
	var worst, unfinished, held *lack
	var took, nodes time.Duration // what worst took, and the most that nodes did
	silent := m.silence()
	for _, l := range lacksOf(m.run) {
		if l.to <= from || l.from >= to {
			continue
		}
		l.from = max(l.from, from)
		if l.to > until {
			l.to, l.open = until, true // what comes then is the next fault's
		}
		mine, unproven := l.took(l.from, m.bound.Limit, silent)
		if unproven {
			held = l
			continue
		}
		nodes = max(nodes, since(l.from, l.to)-mine)
		if worst == nil || mine > took {
			worst, took = l, mine
		}
		if l.open && unfinished == nil {
			unfinished = l
		}
	}
	if worst == nil && held == nil {
		return inconclusive("nothing that was asked for during the %s was seen to be carried out", m.fault.what())
	}
	switch {
	case took > m.bound.Limit:
		return failed("The application must be as it is wanted within %s of the %s and of each change: %s was not for %s (%s to %s): %s.",
			m.bound, m.fault.what(), worst.part, short(took), when(worst.from), when(worst.to), worst.why).took(took).rests(worst.from, worst.to)
	case held != nil:
		return inconclusive("%s", held.says(held.from))
	case unfinished != nil:
		return inconclusive("%s was not yet as it is wanted when it was last looked at, %s after the %s or the change, which is less than the bound of %s: %s",
			unfinished.part, short(since(unfinished.from, unfinished.to)), m.fault.what(), m.bound, unfinished.why)
	}
	words := fmt.Sprintf("%d Deployments, changed %d times during the %s, were each as it was wanted within %s, ready pods and Services alike; the longest took %s (%s)",
		len(parts), changes, m.fault.what(), m.bound, short(took), worst.part)
	return passed("%s%s.", words, besides(nodes)).took(took).
		shows(fmt.Sprintf("%s from %s to %s: at last %s", worst.part, when(worst.from), when(worst.to), worst.why))
}
