package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// mostNodes is the largest number of control-plane nodes in a cluster.
const mostNodes = 7

// Misplaced returns the steps of the timeline that a cluster of these nodes cannot have:
// injections into missing nodes, or with parameters that do not fit. Without nodes it returns
// those that no cluster can have.
func (e Experiment) Misplaced(nodes []fault.Place) []workload.Problem {
	p := &placement{nodes: nodes, most: len(nodes)}
	if nodes == nil {
		p.most = mostNodes
	}
	for i, s := range e.Timeline {
		path := fmt.Sprintf("timeline[%d]", i)
		switch {
		case s.Inject != nil:
			p.inject(path+".inject", s.Inject)
		case s.Action != nil:
			p.action(path+".action", s.Action)
		}
	}
	return p.problems
}

// KeepsNodes reports whether the timeline leaves the nodes of its cluster as they were: it changes
// none of them in place, and removes, or loses, exactly the nodes that it has added.
func (e Experiment) KeepsNodes() bool {
	var added []string
	for _, s := range e.Timeline {
		switch a := s.Action; {
		case a == nil || !ChangesNodes(a.Name):
		case a.Name == actionAddNode && a.Interrupt > 0: // it is undone
		case a.Name == actionAddNode:
			added = append(added, a.ID)
		case a.Name != actionRemoveNode && a.Name != actionLoseNode:
			return false
		case a.Node == "" && len(added) > 0:
			added = added[:len(added)-1]
		default:
			for node := range strings.SplitSeq(a.Node, ",") {
				i := slices.Index(added, strings.TrimPrefix(strings.TrimSpace(node), "node/"))
				if i < 0 {
					return false
				}
				added = slices.Delete(added, i, i+1)
			}
		}
	}
	return len(added) == 0
}

type placement struct {
	nodes    []fault.Place // of the cluster at the start; nil for any
	most     int           // how many nodes there can be at this step
	added    []string      // what the timeline calls nodes that it added
	changed  bool          // nodes were added or removed
	problems []workload.Problem
}

func (p *placement) add(path string, err error) {
	p.problems = append(p.problems, workload.Problem{Path: path, Err: err})
}

func (p *placement) inject(path string, in *Inject) {
	f, err := fault.Find(in.Fault)
	if err != nil {
		return // reported elsewhere, or a user's own fault
	}
	if !p.there(path+".target", in.Target) {
		return
	}
	nodes := p.nodes
	if p.changed {
		nodes = nil // the nodes are known only when the step is reached
	}
	known := f.ParamNames()
	for name := range in.Params {
		if !slices.Contains(known, name) {
			return // already reported
		}
	}
	if err := fault.CheckWritten(f, in.Target, in.Params, nodes); err != nil {
		p.add(path, err)
	}
}

func (p *placement) action(path string, a *Action) {
	if !ChangesNodes(a.Name) {
		return
	}
	for node := range strings.SplitSeq(a.Node, ",") {
		if node = strings.TrimSpace(node); node != "" && a.Name != actionReplaceNode {
			p.there(path+".node", "node/"+strings.TrimPrefix(node, "node/"))
		}
	}
	p.changed = p.changed || !changesInPlace(a.Name)
	if adds(a.Name) {
		p.most++
		p.added = append(p.added, a.ID)
	}
}

// there reports whether the node that a target names may exist. Without a cluster, unknown names
// are accepted.
func (p *placement) there(path, target string) bool {
	named, err := fault.Names(target)
	if err != nil {
		return false // already reported
	}
	var names, zones []string
	for _, n := range p.nodes {
		names = append(names, n.Name)
		if !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	switch {
	case named.Number > p.most && p.nodes == nil:
		p.add(path, fmt.Errorf("target %s: a cluster has %d control-plane nodes at most", target, p.most))
	case named.Number > p.most:
		p.add(path, fmt.Errorf("target %s: the cluster has %d control-plane nodes; set minNodes if the scenario needs more", target, p.most))
	case p.nodes == nil, named.Node != "" && slices.Contains(p.added, named.Node):
		return true
	case named.Node != "" && !p.changed && !slices.Contains(names, named.Node):
		p.add(path, fmt.Errorf("target %s: no control-plane node is called %q: want one of %s, or a role or number", target, named.Node, listed(names)))
	case named.Zone != "" && !slices.Contains(zones, named.Zone):
		p.add(path, fmt.Errorf("target %s: no control-plane node is in zone %q: want one of %s", target, named.Zone, listed(zones)))
	default:
		return true
	}
	return false
}
