package judges

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var holderWorks = Definition{Doc{
	Name: "holder-works",
	Guarantee: "An instance that takes over the lease of an elected component does its work: within the bound the controller manager acts on each Deployment that is created or scaled, " +
		"and the scheduler binds each pod that is created, once a node can take it, until another instance takes over the lease or a fault hits.",
	Source:     "kubernetes/kubernetes#82960",
	Needs:      []record.Access{record.AuditLogs},
	NeedsBound: true,
	Params: map[string]string{
		"component": "the elected component: kube-controller-manager (default) or kube-scheduler",
	},
}, judgeHolderWorks}

// tenure is the time in which an instance that took a lease over can work.
type tenure struct {
	node, former string
	facts.Interval
}

// errand is a task of an elected component: the name of the object, when it was requested and
// acknowledged, and until when it stayed the same, 0 for ever.
type errand struct {
	name                string
	asked, known, until record.Nanos
}

// judgeHolderWorks relies on the audit log: what was requested of the component was done in time,
// and by the holder. Other judges evaluate the final result.
func judgeHolderWorks(m *facts.Case) Finding {
	component := m.Param("component", "kube-controller-manager")
	if facts.LockReads(m.Run)[component] != nil {
		return optional("Supervisors elect the active instance of %s: it has no lease.", component)
	}
	d := facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"])
	errands := errandsOf(m, component)
	tenures := tenures(m, component)
	s := m.Settings(component)
	allowed := record.Nanos(s["P"] + s["R"] + s["M"]) // see judgeOneActor
	done := 0
	var longest time.Duration
	for _, t := range tenures {
		for _, e := range errands {
			if e.asked < t.From || e.asked > t.To {
				continue
			}
			limit := e.known + record.Nanos(m.Bound.Limit)
			by := about(d, e, min(limit, t.To))
			i := slices.IndexFunc(by, func(a facts.Act) bool { return a.Node == t.node })
			switch {
			case i >= 0:
				done, longest = done+1, max(longest, text.Span(e.known, by[i].Received))
			case limit > t.To || e.until > 0 && limit > e.until:
				// There was less time than it may take.
			case len(by) > 0 && by[0].Node == t.former && by[0].Received <= t.From+allowed:
				// The former holder did it, as its election allows.
			case len(d.Doubtful) > 0 || d.Unrecorded(m) != "":
				return Inconclusive("the record does not show who acted on %s, which was requested at %s, nor all that instances of %s did", e.name, text.When(e.asked), component)
			default:
				return neglected(m, d, t, e, by, limit)
			}
		}
	}
	switch {
	case len(tenures) == 0 && undisturbed(m, component) != "":
		return optional("No fault hit %s, the only node that held the lease of %s.", undisturbed(m, component), component)
	case len(tenures) == 0:
		return Inconclusive("no instance of %s was seen to take its lease over from another one", component)
	case done == 0:
		return Inconclusive("no work was requested of %s after its lease was taken over, or too little time was left to see it done", component)
	}
	return Passed("The instances of %s that took over its lease (%d) did what was requested of them (%s) within %s (%s).",
		component, len(tenures), text.Plural(done, "time"), text.Short(longest), m.Bound).Took(longest)
}

// undisturbed returns the node that held the lease of a component throughout, if all faults hit
// others.
func undisturbed(m *facts.Case, component string) string {
	only := ""
	if len(m.Faults) == 0 {
		return only
	}
	for _, s := range facts.LeaseStates(m.Run, component, 0, m.Run.EndAt) {
		node := facts.HolderNode(s.V)
		if !m.WasNode(node) || only != "" && node != only {
			return ""
		}
		only = node
	}
	for _, i := range m.Faults {
		if i.Injected != nil && slices.Contains(i.Nodes(), only) {
			return ""
		}
	}
	return only
}

// neglected is the finding for a request on which the holder was not seen to act until a time; by are
// the actions of others on it.
func neglected(m *facts.Case, d facts.Actions, t tenure, e errand, by []facts.Act, limit record.Nanos) Finding {
	component := d.Component
	if s := m.UnreadLog(facts.Gap{From: e.asked, To: limit}); s != "" {
		return Inconclusive("the record does not show who acted on %s, which was requested at %s: the audit log of the API server on %s was not read to the end", e.name, text.When(e.asked), s)
	}
	if len(by) > 0 {
		return Failed("The holder of the lease of %s must do the work: %s had taken it over at %s, but %s on %s acted on %s, which was requested at %s: %s.",
			component, t.node, text.When(t.From), component, by[0].Node, e.name, text.When(e.asked), facts.DescribeAction(by[0].Action)).Rests(t.From, by[0].Received)
	}
	to := t.To // until when it did nothing
	if e.until > 0 {
		to = min(to, e.until)
	}
	if m.UnreadLog(facts.Gap{From: limit, To: to}) != "" {
		to = limit
	}
	if by := about(d, e, to); len(by) > 0 {
		to = by[0].Received
	}
	return Failed("The holder of the lease of %s must do the work within %s: %s had taken it over at %s, and did not act on %s, which was requested at %s, for %s.",
		component, m.Bound, t.node, text.When(t.From), e.name, text.When(e.asked), text.Short(text.Span(e.known, to))).Took(text.Span(e.known, to)).Rests(t.From, to)
}

// tenures returns those of the instances that took the lease of a component over from another
// one, which may have run on the same node: each until the next one has it, or a fault hits that may
// harm the component.
func tenures(m *facts.Case, component string) (all []tenure) {
	holder, former := "", ""
	states := facts.LeaseStates(m.Run, component, 0, m.Run.EndAt)
	for i, s := range states {
		node := facts.HolderNode(s.V)
		if node == "" || s.V.Holder == holder || !m.WasNode(node) {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].To = min(all[n-1].To, s.At)
		}
		if holder != "" {
			all = append(all, tenure{node, former, facts.Interval{From: activeFrom(states[i:]), To: harmedAfter(m, component, s.At)}})
		}
		holder, former = s.V.Holder, node
	}
	return all
}

// activeFrom returns from when on the holder of the first of some states of a lease is known to be
// active: from that state on or, if API servers gave it the lease, since it first renewed that.
func activeFrom(states []record.Timed[record.Lease]) record.Nanos {
	first := states[0]
	if first.V.Strategy == "" {
		return first.At
	}
	for _, s := range states[1:] {
		if s.V.Holder == first.V.Holder && !s.V.Renew.Equal(first.V.Renew) {
			return s.At
		}
	}
	return facts.Endless
}

// harmedAfter returns when the first fault after a time was injected, other than one that hit
// another elected component, or a node was changed; the end of the record without one.
func harmedAfter(m *facts.Case, component string, after record.Nanos) record.Nanos {
	return min(m.Run.EndAt, facts.NextDisturbance(m.Run, after), m.NextInjectionOf(after, func(f *record.Fault) bool {
		return f.Hits(component) || !slices.Contains(text.SplitList(facts.DefaultElected), f.Component)
	}))
}

// about returns the actions on a request, until a time: on a ReplicaSet of the Deployment, or the
// binding of the pod.
func about(d facts.Actions, e errand, to record.Nanos) (acts []facts.Act) {
	for _, act := range d.Acts {
		on := act.Resource == "apps/replicasets" && strings.HasPrefix(act.Name, e.name+"-")
		if d.Component == "kube-scheduler" {
			on = act.Resource == "pods" && act.Subresource == "binding" && act.Name == e.name
		}
		if on && act.Received >= e.asked && act.Received <= to {
			acts = append(acts, act)
		}
	}
	return acts
}

// errandsOf returns the acknowledged requests of the application to a component: bare pods to the
// scheduler, created or scaled Deployments to the controller manager. The scheduler can act on a
// pod once there is a node for it.
func errandsOf(m *facts.Case, component string) (all []errand) {
	run := m.Run
	if component == "kube-scheduler" {
		places := m.Places()
		for _, p := range facts.PodLives(run) {
			if from, ok := places.From(p.Created, m.Bound.Limit); ok {
				all = append(all, errand{p.Name, p.Called, from, p.Gone})
			}
		}
		return all
	}
	replicas, last := map[string]int{}, map[string]int{} // by name: pods wanted, index in all
	for _, op := range record.Each(run.Ops) {
		name := facts.DeploymentOf(op)
		if name == "" || op.Outcome == record.Refused {
			continue
		}
		if j, ok := last[name]; ok && all[j].until == 0 {
			all[j].until = op.Call
		}
		old, known := replicas[name]
		wanted := facts.ReplicasOf(op)
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
