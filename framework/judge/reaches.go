package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// confined are the faults that act on one process or on whole nodes and on nothing else.
// Any other fault may have consequences everywhere.
var confined = []string{"kill", "stop", "restart", "freeze", "crash-loop", "pause", "power-off", "reboot", "isolate", "isolate-etcd"}

// touching returns the injections that were active at any time between from and to, or
// less than after before it.
func (m *matter) touching(from, to, after record.Nanos) (all []*injection) {
	for _, inj := range m.faults {
		first := inj.injected
		if first == nil {
			first = inj.failed
		}
		if first == nil || first.Called > to {
			continue
		}
		if inj.healed == nil || !inj.healed.Proven || from <= inj.healEffect()+after {
			all = append(all, inj)
		}
	}
	return all
}

// reached reports whether any of some injections, active at the same time, can make a
// component of a node exit. One of an elected component reaches that process alone. One of
// an API server or of the load balancer can cost an instance of an elected component its
// lease on any node, so that it exits. One of etcd, or of a node, can do that too, and
// makes other components of other nodes fail, and their supervisor restart them, only where
// it may cost etcd its quorum.
func (m *matter) reached(by []*injection, node, component string) bool {
	return slices.ContainsFunc(by, func(inj *injection) bool {
		f := inj.injected
		if f == nil || !slices.Contains(confined, f.Name) {
			return true
		}
		here := f.Host == node || slices.Contains(inj.nodes(), node)
		switch {
		case m.isElected(f.Component):
			return here && component == f.Component
		case here || m.isElected(component):
			return true
		case f.Component == "etcd" || f.Component == "":
			return len(inj.nodes()) == 0 || m.quorumInDoubt(by)
		}
		return false
	})
}

// isElected reports whether the instances of a component elect an active one.
func (m *matter) isElected(component string) bool {
	return slices.Contains(splitList(defaultElected), component) ||
		slices.ContainsFunc(m.run.Leases, func(l record.Timed[record.Lease]) bool { return l.V.Name == component })
}

// quorumInDoubt reports whether injections hit so many etcd members that the others may
// not be a majority.
func (m *matter) quorumInDoubt(by []*injection) bool {
	hit := map[string]bool{}
	for _, inj := range by {
		if inj.injected == nil || inj.injected.Component == "etcd" || inj.injected.Component == "" {
			for _, n := range inj.nodes() {
				hit[n] = true
			}
		}
	}
	members, left := 0, 0
	for _, n := range nodeLives(m.run) {
		if slices.Contains(n.Components, "etcd") {
			if members++; !hit[n.Name] {
				left++
			}
		}
	}
	return 2*left <= members
}

// defaultElected are the elected components of every cluster.
const defaultElected = "kube-controller-manager,kube-scheduler"

// addonManager is the component that applies add-ons. Every instance acts; none is elected.
const addonManager = "addon-manager"
