package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func holderWorks() definition {
	return definition{Doc{
		Name: "holder-works",
		Guarantee: "An instance that takes over the lease of an elected component does its work: within the bound the controller manager acts on each Deployment that is created or scaled, " +
			"and the scheduler binds each pod that is created, until another instance takes the lease over or a fault hits.",
		Source:     "kubernetes/kubernetes#82960",
		NeedsBound: true,
		Params: map[string]string{
			"component": "the elected component: kube-controller-manager (default) or kube-scheduler",
		},
	}, judgeHolderWorks}
}

// tenure is the time in which an instance that took a lease over can work.
type tenure struct {
	node string
	interval
}

// errand is something that an elected component has to do: the name of the object, when it was
// asked for and acknowledged, and until when it stayed the same, 0 for ever.
type errand struct {
	name                string
	asked, known, until record.Nanos
}

// judgeHolderWorks rests on the audit log: what was asked of the component was done in time,
// and by the holder. What becomes of it in the end is for other judges.
func judgeHolderWorks(m *matter) finding {
	component := m.param("component", "kube-controller-manager")
	if lockReads(m.run)[component] != nil {
		return notApplicable("Supervisors elect the active instance of %s: it has no lease.", component)
	}
	d := deedsOf(m.run, component, m.run.Meta.Settings["M"])
	errands := errandsOf(m.run, component)
	tenures := m.tenures(component)
	done := 0
	var longest time.Duration
	for _, t := range tenures {
		for _, e := range errands {
			if e.asked < t.from || e.asked > t.to {
				continue
			}
			limit := e.known + record.Nanos(m.bound.Limit)
			by := d.about(e, min(limit, t.to))
			i := slices.IndexFunc(by, func(a deed) bool { return a.Node == t.node })
			switch {
			case i >= 0:
				done, longest = done+1, max(longest, span(e.known, by[i].Received))
			case limit > t.to || e.until > 0 && limit > e.until:
				// There was less time than it may take.
			case len(d.doubtful) > 0 || d.unrecorded(m) != "":
				return inconclusive("the record does not show who acted on %s, which was asked for at %s, nor all that instances of %s did", e.name, when(e.asked), component)
			case len(by) > 0:
				return failed("Who holds the lease of %s must do its work: %s had taken it over at %s, and it was %s on %s that acted on %s, which was asked for at %s: %s.",
					component, t.node, when(t.from), component, by[0].Node, e.name, when(e.asked), describeAction(by[0].Action)).rests(t.from, by[0].Received)
			default:
				return failed("Who holds the lease of %s must do its work within %s: %s had taken it over at %s, and did nothing about %s, which was asked for at %s.",
					component, m.bound, t.node, when(t.from), e.name, when(e.asked)).rests(t.from, limit)
			}
		}
	}
	switch {
	case len(tenures) == 0:
		return inconclusive("no instance of %s was seen to take its lease over from another one", component)
	case done == 0:
		return inconclusive("nothing was asked of %s after its lease was taken over, or there was too little time to see it done", component)
	}
	return passed("The instances of %s that took its lease over (%d) did what was asked of them (%d times) within %s of it (%s).",
		component, len(tenures), done, short(longest), m.bound).took(longest)
}

// tenures returns those of the instances that took the lease of a component over from another
// one: each until the next one has it, or a fault hits that may harm the component.
func (m *matter) tenures(component string) (all []tenure) {
	holder := ""
	for _, s := range leaseStates(m.run, component, 0, m.run.EndAt) {
		node := holderNode(s.V)
		if node == "" || node == holder || !m.wasNode(node) {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].to = min(all[n-1].to, s.At)
		}
		if holder != "" {
			all = append(all, tenure{node, interval{s.At, m.harmedAfter(component, s.At)}})
		}
		holder = node
	}
	return all
}

// harmedAfter returns when the first fault after a time was injected, other than one that hit
// another elected component; the end of the record without one.
func (m *matter) harmedAfter(component string, after record.Nanos) record.Nanos {
	end := m.run.EndAt
	for _, f := range m.faults {
		if in := f.injected; in != nil && in.Called > after && (in.Component == component || !slices.Contains(splitList(defaultElected), in.Component)) {
			end = min(end, in.Called)
		}
	}
	return end
}

// about returns the actions on what was asked for, until a time: on a ReplicaSet of the
// Deployment, or the binding of the pod.
func (d deeds) about(e errand, to record.Nanos) (acts []deed) {
	for _, act := range d.acts {
		on := act.Resource == "apps/replicasets" && strings.HasPrefix(act.Name, e.name+"-")
		if d.component == "kube-scheduler" {
			on = act.Resource == "pods" && act.Subresource == "binding" && act.Name == e.name
		}
		if on && act.Received >= e.asked && act.Received <= to {
			acts = append(acts, act)
		}
	}
	return acts
}

// errandsOf returns what the application asked of a component and was acknowledged: pods that
// stand alone of the scheduler, Deployments created or scaled of the controller manager.
func errandsOf(run *record.Run, component string) (all []errand) {
	if component == "kube-scheduler" {
		for _, p := range podLives(run) {
			all = append(all, errand{p.name, p.called, p.created, p.gone})
		}
		return all
	}
	replicas, last := map[string]int{}, map[string]int{} // by name: pods wanted, index in all
	for i := range run.Ops {
		op := &run.Ops[i].V
		name := deploymentOf(op)
		if name == "" || op.Outcome == record.Refused {
			continue
		}
		if j, ok := last[name]; ok && all[j].until == 0 {
			all[j].until = op.Call
		}
		old, known := replicas[name]
		wanted := replicasOf(op)
		replicas[name] = wanted
		switch {
		case op.Outcome != record.OK:
			delete(replicas, name) // it may be the old number or the new one
		case op.Type == record.OpCreate, op.Type != record.OpDelete && known && old != wanted:
			last[name] = len(all)
			all = append(all, errand{name: name, asked: op.Call, known: op.Return})
		}
	}
	return all
}
