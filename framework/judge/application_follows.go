package judge

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func applicationFollows() definition {
	return definition{Doc{
		Name: "application-follows",
		Guarantee: "As long as nothing is broken, an application comes up and follows each change within the bound: each Deployment comes to have exactly the ready pods that are wanted, " +
			"and each Service to list exactly these. " +
			"The time in which only nodes have something to do, containers to start or to end, does not count, if they do it at last and their heartbeats come.",
		Source:     "High Availability Kubernetes Clusters (the k8petstore); Kubernetes SLOs (pod startup latency: 5 s without pulling images)",
		NeedsBound: true, BeforeFaults: true,
		Params: map[string]string{
			"changes": "how many changes must have been seen to be carried out, creations included (default 5)",
		},
	}, judgeApplicationFollows}
}

// judgeApplicationFollows looks at the time before the first fault. What is not yet as it
// is wanted when that comes, or at the end, counts as far as it has lasted.
func judgeApplicationFollows(m *matter) finding {
	least, err := strconv.Atoi(m.param("changes", "5"))
	if err != nil || least < 1 {
		return inconclusive("the check cannot be judged: parameter changes = %q is no number above 0", m.check.Params["changes"])
	}
	from, to := m.quiet()
	end := lastSeen(m.run)
	if s := notUp(m.run); s != nil {
		end = s.At // what was seen last was looked at again then
	}
	to = min(to, max(from, end))
	silent := m.silence()
	parts, followed := map[string]bool{}, 0
	var worst, held *lack
	var took, nodes time.Duration // what worst took, and the most that nodes did
	for _, l := range lacksOf(m.run) {
		if l.from < from || l.from >= to {
			continue
		}
		if l.open || l.to > to {
			l.to, l.open = to, true
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
		if !l.open {
			parts[l.part] = true
			followed++
		}
	}
	switch {
	case worst == nil && held == nil:
		return m.notCreated(from, to)
	case took > m.bound.Limit && !m.hasPlace():
		return inconclusive("no worker node was seen to be ready, and none to have a pod, so that the application had no place to run")
	case took > m.bound.Limit:
		return failed("As long as nothing is broken, an application must come up and follow each change within %s: %s was not as it is wanted for %s (%s to %s): %s.",
			m.bound, worst.part, short(took), when(worst.from), when(worst.to), worst.why).took(took).rests(worst.from, worst.to)
	case held != nil:
		return inconclusive("%s", held.says(held.from))
	case followed < least:
		return inconclusive("%s of the application were seen to be carried out before anything was broken, fewer than the %d that it takes to say anything", plural(followed, "change"), least)
	}
	return passed("Before anything was broken, an application of %d Deployments came up and followed %d changes, each within %s, ready pods and Services alike; the longest took %s (%s)%s.",
		len(parts), followed, m.bound, short(took), worst.part, besides(nodes)).took(took).
		shows(fmt.Sprintf("%s from %s to %s: at last %s", worst.part, when(worst.from), when(worst.to), worst.why))
}

// hasPlace reports whether there was a place for pods: a ready worker node, or any node
// that one was bound to.
func (m *matter) hasPlace() bool {
	return slices.ContainsFunc(m.run.Objects, func(t record.Timed[record.Object]) bool {
		o := t.V
		return o.Kind == record.ObjectNode && !o.Gone && o.Node.Ready == "True" && !m.wasNode(o.Name) || o.Kind == record.ObjectPod && !o.Gone && o.Pod.Node != ""
	})
}

// notCreated says that there was no application, and what came of the try to make one. That
// may be refused for reasons that are not the cluster's.
func (m *matter) notCreated(from, to record.Nanos) finding {
	for i := range m.run.Ops {
		if op := &m.run.Ops[i].V; deploymentOf(op) != "" && op.Call >= from && op.Call < to {
			return inconclusive("no Deployment of the application was created before anything was broken: %s", describe(*op))
		}
	}
	return inconclusive("the record shows no application before anything was broken")
}
