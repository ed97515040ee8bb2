package facts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// LeaseStates returns the observed states of one component's lease between from and to, oldest
// first. The resourceVersion gives the order: a reading through one entrance may come later than
// a newer one through another. A missing lease has no version, and stays in its place.
func LeaseStates(run *record.Run, component string, from, to record.Nanos) []record.Timed[record.Lease] {
	var states, versioned []record.Timed[record.Lease]
	var places []int // of the versioned ones
	for _, l := range run.Leases {
		if l.V.Name != component || l.At < from || l.At > to {
			continue
		}
		if record.Number(l.V.Revision) > 0 {
			places = append(places, len(states))
			versioned = append(versioned, l)
		}
		states = append(states, l)
	}
	slices.SortStableFunc(versioned, func(a, b record.Timed[record.Lease]) int {
		return cmp.Compare(record.Number(a.V.Revision), record.Number(b.V.Revision))
	})
	for i, place := range places {
		states[place] = versioned[i]
	}
	return states
}

// TwoHolders returns two states of the same version with different holders, or nil: a lease is
// one object, so those would be two leases.
func TwoHolders(states []record.Timed[record.Lease]) []record.Lease {
	first := map[string]record.Lease{} // by version
	for _, s := range states {
		a, known := first[s.V.Revision]
		if known && a.Holder != s.V.Holder {
			return []record.Lease{a, s.V}
		}
		if s.V.Revision != "" && !known {
			first[s.V.Revision] = s.V
		}
	}
	return nil
}

// FurtherLeases returns the leases of elected components that only the cluster's description
// names. The record has none of their other actions.
func FurtherLeases(run *record.Run) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(run.Meta.Elections)), func(name string) bool {
		return slices.Contains(text.SplitList(DefaultElected), name)
	})
}

// Instances returns the nodes on which a component's process ran when it was
// last seen before t.
func Instances(run *record.Run, component string, t record.Nanos) []string {
	runs := map[string]bool{}
	for _, p := range run.Processes {
		if p.V.Component == component && p.At <= t {
			runs[p.V.Node] = p.V.PID > 0
		}
	}
	var nodes []string
	for _, n := range run.Meta.Nodes {
		if runs[n.Name] {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// HolderNode returns the node of a lease's holder. Kubernetes components name
// themselves after their host: "node-1_<unique>".
func HolderNode(l record.Lease) string {
	if l.HolderNode != "" {
		return l.HolderNode
	}
	node, _, _ := strings.Cut(l.Holder, "_")
	return node
}

// ElectedComponent is the elected component that a check is about.
func (m *Case) ElectedComponent() string { return m.Param("component", m.Fault.Injected.Component) }

// Newer reports whether state a of a lease is later than b.
func Newer(a, b record.Lease) bool {
	va, vb := record.Number(a.Revision), record.Number(b.Revision)
	if va > 0 && vb > 0 {
		return va > vb
	}
	return true
}

// Seized returns how long the lease of a component lasts that one node's instance held when one
// of another node took it over, at some time. It is not known if the lease was not seen to pass
// directly from the one to the other: it was released or deleted before, or a third instance may
// have held it in between.
func (m *Case) Seized(component, from, by string, at record.Nanos) (lasts time.Duration, known bool) {
	states := LeaseStates(m.Run, component, 0, m.Run.EndAt)
	at -= record.Nanos(m.Run.Meta.Settings["M"])
	i := slices.IndexFunc(states, func(s record.Timed[record.Lease]) bool {
		return s.At >= at && s.V.Holder != "" && HolderNode(s.V) == by
	})
	if i < 1 {
		return 0, false
	}
	old := states[i-1].V
	changes := states[i].V.Transitions - old.Transitions
	known = old.Holder != "" && HolderNode(old) == from && (changes == 0 || changes == 1)
	return time.Duration(old.Duration) * time.Second, known
}

// LeasesTaken reports whether a fault between two times may have changed leases themselves: then an
// instance may take over one that another renews.
func (m *Case) LeasesTaken(from, to record.Nanos) bool {
	return m.mayHave(from, to, record.EffectLease, record.EffectRestored, record.EffectDisk)
}

// LeasesChanged reports whether a fault between two times may have changed leases themselves, or
// the clocks by which they expire.
func (m *Case) LeasesChanged(from, to record.Nanos) bool {
	return m.LeasesTaken(from, to) || m.mayHave(from, to, record.EffectClock)
}

// mayHave reports whether a fault between two times had, or may have had, any of some effects.
func (m *Case) mayHave(from, to record.Nanos, any ...record.Effect) bool {
	return slices.ContainsFunc(m.Touching(from, to, record.Nanos(m.Run.Meta.Settings["M"])), func(inj *Injection) bool {
		return inj.Injected == nil || len(inj.Injected.Effects) == 0 || inj.Injected.Has(any...)
	})
}
