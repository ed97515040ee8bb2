package facts

import (
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Endless is the end of anything that does not end in the record.
const Endless = record.Nanos(math.MaxInt64)

// NodeLife is when a control-plane node existed: from when its joining counted to when its
// removal was requested.
type NodeLife struct {
	record.Node
	From, Until record.Nanos
}

// NodeLives returns the life of every node of a record, in the order of joining.
func NodeLives(run *record.Run) []NodeLife {
	var all []NodeLife
	for _, n := range run.Meta.Nodes {
		all = append(all, NodeLife{n, 0, Endless})
	}
	for _, c := range run.Nodes {
		switch v := c.V; v.Phase {
		case record.NodeAdded:
			all = append(all, NodeLife{v.Node, v.Effect, Endless})
		default:
			// A failed change may have been made in part.
			for i := range all {
				if v.Node.Name != "" && all[i].Name == v.Node.Name {
					all[i].Until = min(all[i].Until, v.Called)
				}
			}
		}
	}
	return all
}

// LivesOf returns the lives of the nodes of a name, in the order of joining.
func LivesOf(run *record.Run, node string) []NodeLife {
	return slices.DeleteFunc(NodeLives(run), func(l NodeLife) bool { return l.Name != node })
}

// LifeAt returns the life of a node at a time, and false if it was not part of the cluster then. A
// name that never was a control-plane node's has an endless one.
func LifeAt(run *record.Run, node string, t record.Nanos) (life NodeLife, there bool) {
	all := LivesOf(run, node)
	for _, l := range all {
		if l.From <= t && t < l.Until {
			return l, true
		}
	}
	return NodeLife{Until: Endless}, len(all) == 0
}

// Stays reports whether a node is part of the cluster at the end: it may have come back under its
// name.
func (m *Case) Stays(node string) bool {
	all := LivesOf(m.Run, node)
	return len(all) == 0 || all[len(all)-1].Until == Endless
}

// NextChange is when the first change of the set of nodes after a time was requested; endless for
// none.
func NextChange(run *record.Run, after record.Nanos) record.Nanos {
	next := Endless
	for _, c := range run.Nodes {
		if c.V.Called > after {
			next = min(next, c.V.Called)
		}
	}
	return next
}

// NextInPlace is when the first change in place of a node, such as an upgrade, was requested after a
// time, which restarts its components; endless for none. An empty name is any node.
func NextInPlace(run *record.Run, node string, after record.Nanos) record.Nanos {
	next := Endless
	for _, c := range run.Changes {
		// If the cluster lacks the ability for it, no node is changed.
		made := c.V.Phase != record.NodeFailed || c.V.Missing == "" || c.V.Node.Name != ""
		if made && c.V.Called > after && (node == "" || c.V.Node.Name == node) {
			next = min(next, c.V.Called)
		}
	}
	return next
}

// NextDisturbance is when the first change after a time was requested, of the set of nodes or of a
// node in place; endless for none.
func NextDisturbance(run *record.Run, after record.Nanos) record.Nanos {
	return min(NextChange(run, after), NextInPlace(run, "", after))
}

// APIServersAt returns the addresses of the API servers that existed at a time, sorted.
func (m *Case) APIServersAt(t record.Nanos) []string {
	var all []string
	for _, n := range NodeLives(m.Run) {
		if n.From <= t && t < n.Until && slices.Contains(n.Components, "kube-apiserver") {
			all = append(all, n.Address)
		}
	}
	slices.Sort(all)
	return all
}

// Changing describes a change in progress: "upgrade of node-2 from v1.36.3 to v1.37.1".
func Changing(c record.NodeChange) string {
	switch c.Phase {
	case record.NodeAdded:
		return "addition of " + c.Node.Name
	case record.NodeUndone:
		return fmt.Sprintf("interrupted addition %q", c.Name)
	case record.NodeRemoved:
		return "removal of " + c.Node.Name
	case record.NodeLost:
		return "loss of " + c.Node.Name
	}
	return InPlaceWords(c)
}

// ChangeWords describes a change: "node-4 (10.77.0.14) was added".
func ChangeWords(c record.NodeChange) string {
	return fmt.Sprintf("%s (%s) was %s", c.Node.Name, c.Node.Address, c.Phase)
}

// InPlaceWords describes a change: "upgrade of node-2 from v1.36.3 to v1.37.1".
func InPlaceWords(c record.NodeChange) string {
	words := c.Action + " of " + c.Node.Name
	switch {
	case c.Interrupted > 0 && c.To != "" && c.To == c.From:
		return fmt.Sprintf("%s, interrupted after step %d and rolled back to %s", words, c.Interrupted, c.To)
	case c.To != "":
		words += " from " + c.From + " to " + c.To
	}
	if c.Interrupted > 0 {
		words += fmt.Sprintf(", interrupted after step %d", c.Interrupted)
	}
	return words
}
