package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var rejoins = Definition{Doc{
	Name:       "rejoins",
	Guarantee:  "A node rejoins unaided within the bound after its power returns: each of its components runs, its etcd member follows a leader, and its API server answers quorum reads. If the provider reports when the machine started, the bound counts from then, since its firmware is not part of the control plane.",
	Source:     "Control plane resilience overview; High Availability Kubernetes Clusters (admin guide)",
	NeedsFault: true, NeedsBound: true, HealsItself: true,
}, judgeRejoins}

func judgeRejoins(m *facts.Case) Finding {
	back := m.Fault.Healed.Called
	switch f := m.Fault.Injected; {
	case !f.Has(record.EffectPower):
		return Inconclusive("the %s does not cut a node's power", m.Fault.What())
	case f.Has(record.EffectRestarted):
		off, err := time.ParseDuration(f.Params["off"])
		if err != nil {
			return Inconclusive("the record does not say for how long the nodes were off")
		}
		back = f.Called + record.Nanos(off)
	}
	// A request shortly before the bound leaves no time to judge.
	until := min(m.NextInjection(m.Fault.Effect()), m.Run.EndAt)
	var took time.Duration
	last := ""
	var since, lastAt record.Nanos
	parts := 0
	for _, node := range m.Fault.Nodes() {
		on := max(back, m.Fault.Healed.Booted[node])
		if !m.Fault.Healed.Proven { // so the machine may not have started, or not yet: what runs on it shows that it has
			on = max(on, facts.FirstAt(m.Run.Processes, back, func(p record.ProcessState) bool { return p.Node == node && p.Error == "" && p.PID > 0 }))
		}
		for _, part := range partsOf(m, node) {
			parts++
			at := part.since(on)
			if at > until {
				if waited := text.Span(on, until); waited > m.Bound.Limit {
					return Failed("A node must rejoin within %s of the return of its power after the %s: %s had not rejoined %s later.",
						m.Bound, m.Fault.What(), part.name, text.Short(waited)).Took(waited).Rests(on, until)
				}
				return Inconclusive("%s had not come back when it was last checked, %s after the power returned, which is less than the bound of %s",
					part.name, text.Short(text.Span(on, until)), m.Bound)
			}
			if d := text.Span(on, at); d >= took {
				took, last, since, lastAt = d, part.name, on, at
			}
		}
	}
	if parts == 0 {
		return Inconclusive("the record has no component of %s", text.And(m.Fault.Nodes()))
	}
	if took > m.Bound.Limit {
		return Failed("A node must rejoin within %s after its power returns: after the %s, %s came back after %s.", m.Bound, m.Fault.What(), last, text.Short(took)).
			Took(took).Rests(since, lastAt)
	}
	for _, node := range m.Fault.Nodes() {
		if f := goneAgain(m, node, max(back, m.Fault.Healed.Booted[node])); f != nil {
			return *f
		}
	}
	if hidden := hiddenOf(m, m.Fault.Nodes()); len(hidden) > 0 {
		return notApplicable("Not every part of the requirement can be tested here: what can be observed of %s was back at most %s after the power returned, within %s, but the provider gives no access to the %s.",
			text.And(m.Fault.Nodes()), text.Short(took), m.Bound, text.And(hidden))
	}
	return Passed("%s rejoined unaided: all %d processes, etcd members and API servers were back at most %s after the power returned (%s), within %s.",
		text.And(m.Fault.Nodes()), parts, text.Short(took), last, m.Bound).Took(took)
}

// goneAgain finds a component of a node that came back, exited again, and then was down for longer
// than the bound. That does not violate the guarantee if its process watcher backs off.
func goneAgain(m *facts.Case, node string, on record.Nanos) *Finding {
	until := m.UntilNext(m.Fault.Effect())
	for _, component := range componentsOf(m, node) {
		since := facts.Endless // when it was first seen to be down
		for _, p := range m.Run.Processes {
			switch v := p.V; {
			case v.Node != node || v.Component != component || p.At < on || p.At > until:
			case v.Error != "" || v.PID > 0 || v.Standby:
				since = facts.Endless
			default:
				since = min(since, p.At)
			}
		}
		if down := text.Span(since, until); since < until && down > m.Bound.Limit {
			return Inconclusive("%s on %s came back, exited again %s, and was not started again for %s: the process watcher may back off from it",
				component, node, text.At(since), text.Short(down)).problem()
		}
	}
	return nil
}

// hiddenOf returns what the provider gives no access to among the parts of nodes.
func hiddenOf(m *facts.Case, nodes []string) (all []string) {
	for _, access := range []record.Access{record.Processes, record.EtcdMembers} {
		if slices.ContainsFunc(nodes, func(n string) bool { return hides(m, n, access) }) {
			all = append(all, string(access))
		}
	}
	return all
}

// hides reports whether a node has parts that the record cannot show for lack of access.
func hides(m *facts.Case, node string, access record.Access) bool {
	return slices.Contains(m.Run.Meta.NoAccess, access) && (access != record.EtcdMembers || slices.Contains(componentsOf(m, node), "etcd"))
}

func componentsOf(m *facts.Case, node string) (components []string) {
	for _, life := range facts.LivesOf(m.Run, node) {
		components = life.Components // the last one counts
	}
	return components
}

// nodePart is a part of a node that comes back, and when it was first seen since a time; endless
// for never.
type nodePart struct {
	name  string
	since func(record.Nanos) record.Nanos
}

// partsOf returns all parts of a node that the record can show.
func partsOf(m *facts.Case, node string) (parts []nodePart) {
	components := componentsOf(m, node)
	for _, component := range components {
		if hides(m, node, record.Processes) {
			break
		}
		parts = append(parts, nodePart{component + " on " + node, func(from record.Nanos) record.Nanos {
			return facts.FirstAt(m.Run.Processes, from, func(p record.ProcessState) bool {
				return p.Node == node && p.Component == component && p.Error == "" && (p.PID > 0 || p.Standby)
			})
		}})
	}
	if slices.Contains(components, "etcd") && !hides(m, node, record.EtcdMembers) {
		parts = append(parts, nodePart{"the etcd member on " + node, func(from record.Nanos) record.Nanos {
			return facts.FirstAt(m.Run.Etcd, from, func(s record.EtcdStatus) bool { return s.Node == node && s.OK && s.Leader != "" })
		}})
	}
	if slices.Contains(m.Run.Meta.Entrances, node) {
		parts = append(parts, nodePart{fmt.Sprintf("the API server on %s", node), func(from record.Nanos) record.Nanos {
			return facts.FirstAt(m.Run.Probes, from, func(p record.Probe) bool {
				return p.Entrance == node && p.OK && p.Kind == record.ProbeQuorumRead && p.Start >= from
			})
		}})
	}
	return parts
}
