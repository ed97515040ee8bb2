package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// endless is the end of what does not end in the record.
const endless = record.Nanos(math.MaxInt64)

// nodeLife is when a control-plane node was there: from when its joining counted to
// when its leaving was asked for.
type nodeLife struct {
	record.Node
	from, until record.Nanos
}

// nodeLives returns the life of every node of a record, in the order of joining.
func nodeLives(run *record.Run) []nodeLife {
	var all []nodeLife
	for _, n := range run.Meta.Nodes {
		all = append(all, nodeLife{n, 0, endless})
	}
	for _, c := range run.Nodes {
		switch v := c.V; v.Phase {
		case record.NodeAdded:
			all = append(all, nodeLife{v.Node, v.Effect, endless})
		default:
			// One that failed may have gone halfway.
			for i := range all {
				if v.Node.Name != "" && all[i].Name == v.Node.Name {
					all[i].until = min(all[i].until, v.Called)
				}
			}
		}
	}
	return all
}

// leftAt is when a node's leaving was asked for; endless where it stayed.
func leftAt(run *record.Run, node string) record.Nanos {
	for _, c := range run.Nodes {
		if c.V.Node.Name == node && c.V.Phase != record.NodeAdded {
			return c.V.Called
		}
	}
	return endless
}

// stays tells whether a node was never asked to leave.
func (m *matter) stays(node string) bool { return leftAt(m.run, node) == endless }

// nextChange is when the first change of nodes after a time was asked for; endless
// for none.
func nextChange(run *record.Run, after record.Nanos) record.Nanos {
	next := endless
	for _, c := range run.Nodes {
		if c.V.Called > after {
			next = min(next, c.V.Called)
		}
	}
	return next
}

// apiServersAt returns the addresses of the API servers that there were at a time,
// sorted.
func (m *matter) apiServersAt(t record.Nanos) []string {
	var all []string
	for _, n := range nodeLives(m.run) {
		if n.from <= t && t < n.until && slices.Contains(n.Components, "kube-apiserver") {
			all = append(all, n.Address)
		}
	}
	slices.Sort(all)
	return all
}

// changing describes a change while it is made: "upgrade of node-2 from v1.36.3 to v1.37.1".
func changing(c record.NodeChange) string {
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
	return inPlaceWords(c)
}

// changeWords say what happened: "node-4 (10.77.0.14) was added".
func changeWords(c record.NodeChange) string {
	return fmt.Sprintf("%s (%s) was %s", c.Node.Name, c.Node.Address, c.Phase)
}

// inPlaceWords describe a change: "upgrade of node-2 from v1.36.3 to v1.37.1".
func inPlaceWords(c record.NodeChange) string {
	words := c.Action + " of " + c.Node.Name
	if c.To != "" {
		words += " from " + c.From + " to " + c.To
	}
	return words
}
