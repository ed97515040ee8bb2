package facts

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// confined reports whether the fault acts only on one process, on the lease of one component or
// on whole nodes. Any other fault may have consequences everywhere.
func confined(f *record.Fault) bool {
	if f.Has(record.EffectIsolated) {
		return true
	}
	return len(f.Effects) > 0 && !slices.ContainsFunc(f.Effects, func(e record.Effect) bool {
		return !slices.Contains([]record.Effect{record.EffectDown, record.EffectRestarted, record.EffectFrozen, record.EffectPower, record.EffectLease}, e)
	})
}

// Touching returns the injections that were active at any time between from and to, or
// less than after before it.
func (m *Matter) Touching(from, to, after record.Nanos) (all []*Injection) {
	for _, inj := range m.Faults {
		first := inj.Injected
		if first == nil {
			first = inj.Failed
		}
		if first == nil || first.Called > to {
			continue
		}
		if inj.Healed == nil || !inj.Healed.Proven || from <= inj.HealEffect()+after {
			all = append(all, inj)
		}
	}
	return all
}

// Reached reports whether any of some injections, active at the same time, can make a component
// of a node exit. A fault of an elected component reaches that process alone, and a fault of its
// lease each of its instances. A fault of an API server or of the load balancer can cost an
// instance of an elected component its lease on any node, so that it exits. A fault of etcd or of
// a node can do that too. It makes components of other nodes fail, and their supervisors restart
// them, only if it may cost etcd its quorum.
func (m *Matter) Reached(by []*Injection, node, component string) bool {
	return slices.ContainsFunc(by, func(inj *Injection) bool {
		f := inj.Injected
		if f == nil || !confined(f) {
			return true
		}
		here := f.Host == node || slices.Contains(inj.Nodes(), node)
		switch {
		case m.isElected(f.Component) && len(f.Group) == 0:
			return (here || f.Has(record.EffectLease)) && component == f.Component
		case here || m.isElected(component):
			return true
		case f.Hits("etcd"):
			return len(inj.Nodes()) == 0 || m.quorumInDoubt(by)
		}
		return false
	})
}

// isElected reports whether the instances of a component elect an active one.
func (m *Matter) isElected(component string) bool {
	return slices.Contains(text.SplitList(DefaultElected), component) ||
		slices.ContainsFunc(m.Run.Leases, func(l record.Timed[record.Lease]) bool { return l.V.Name == component })
}

// quorumInDoubt reports whether injections hit so many etcd members that the others may not be a
// majority.
func (m *Matter) quorumInDoubt(by []*Injection) bool {
	hit := map[string]bool{}
	for _, inj := range by {
		if inj.Injected == nil || inj.Injected.Hits("etcd") {
			for _, n := range inj.Nodes() {
				hit[n] = true
			}
		}
	}
	members, left := 0, 0
	for _, n := range NodeLives(m.Run) {
		if slices.Contains(n.Components, "etcd") {
			if members++; !hit[n.Name] {
				left++
			}
		}
	}
	return 2*left <= members
}

// DefaultElected are the elected components of every cluster.
const DefaultElected = "kube-controller-manager,kube-scheduler"

// AddonManager is the component that applies add-ons. Every instance acts; none is elected.
const AddonManager = "addon-manager"
