package facts

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

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
		if LeaseVersion(l.V) > 0 {
			places = append(places, len(states))
			versioned = append(versioned, l)
		}
		states = append(states, l)
	}
	slices.SortStableFunc(versioned, func(a, b record.Timed[record.Lease]) int {
		return cmp.Compare(LeaseVersion(a.V), LeaseVersion(b.V))
	})
	for i, place := range places {
		states[place] = versioned[i]
	}
	return states
}

func LeaseVersion(l record.Lease) uint64 {
	n, _ := strconv.ParseUint(l.Revision, 10, 64)
	return n
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
func (m *Matter) ElectedComponent() string { return m.Param("component", m.Fault.Injected.Component) }

// Newer reports whether state a of a lease is later than b.
func Newer(a, b record.Lease) bool {
	va, vb := LeaseVersion(a), LeaseVersion(b)
	if va > 0 && vb > 0 {
		return va > vb
	}
	return true
}
