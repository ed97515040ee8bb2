package fault

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// MissingAbility says that the provider cannot do what a fault or a target
// needs. What asked for it is not applicable to the cluster.
type MissingAbility struct {
	Ability string // such as "Killer"
	Of      string // who lacks it, such as "node node-2"
	For     string // what needs it, such as "fault kill"
	Why     string // it is missing, where that depends on more than the provider
}

func (e *MissingAbility) Error() string {
	if e.Ability == "DiskFaulter" && e.Why == "" {
		return fmt.Sprintf("%s needs a disk of FUSE under etcd, which %s does not have: create the cluster with holdfast up --disk fuse, or with disk: fuse in its file", e.For, e.Of)
	}
	if e.Why != "" {
		return fmt.Sprintf("%s needs the ability %s, which %s does not have: %s", e.For, e.Ability, e.Of, e.Why)
	}
	return fmt.Sprintf("%s needs the ability %s, which %s does not have with this provider", e.For, e.Ability, e.Of)
}

// ability returns the ability A of a node or cluster.
func ability[A any](holder any, of, what string) (A, error) {
	a, ok := holder.(A)
	if !ok {
		return a, &MissingAbility{Ability: reflect.TypeFor[A]().Name(), Of: of, For: what}
	}
	return a, nil
}

// checkParams refuses a missing time to live and unknown parameters.
func checkParams(f Fault, p Params) error {
	if p.TTL <= 0 {
		return fmt.Errorf("fault %s: time to live %s: it must be above zero, so that the fault heals even if nobody is left to heal it", f.Name(), p.TTL)
	}
	known := f.Doc().Params
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		if _, ok := known[name]; ok {
			continue
		}
		if len(known) == 0 {
			return fmt.Errorf("fault %s: parameter %q is unknown: it takes none", f.Name(), name)
		}
		return fmt.Errorf("fault %s: parameter %q is unknown: it takes %s", f.Name(), name,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return nil
}

// node returns the target's node.
func node(c framework.Cluster, t Target) (framework.Node, error) {
	nodes := c.Nodes()
	i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == t.Node })
	if i < 0 {
		return nil, fmt.Errorf("target %s: there is no control-plane node %q: there are %s", t.Asked, t.Node, strings.Join(nodeNames(nodes), ", "))
	}
	return nodes[i], nil
}

// componentHolder returns who has the abilities on the target's component: its
// node, or the cluster for what runs on no node (the load balancer, kwok).
func componentHolder(f Fault, c framework.Cluster, t Target) (holder any, of string, err error) {
	if t.Component == "" {
		return nil, "", fmt.Errorf("fault %s: target %s is no component: it takes one, such as etcd/leader, apiserver/2 or balancer", f.Name(), t.Asked)
	}
	if t.Host != "" {
		return c, "cluster " + c.Name(), nil
	}
	n, err := node(c, t)
	if err != nil {
		return nil, "", fmt.Errorf("fault %s: %w", f.Name(), err)
	}
	if t.Component != framework.NodeAgent && !slices.Contains(n.Components(), t.Component) {
		return nil, "", fmt.Errorf("fault %s: target %s: node %s does not run %s", f.Name(), t.Asked, n.Name(), t.Component)
	}
	return n, "node " + n.Name(), nil
}

// wholeNode returns the target's node, and refuses anything else.
func wholeNode(f Fault, c framework.Cluster, t Target) (framework.Node, error) {
	if t.Component != "" || t.Host != "" || len(t.Nodes) > 0 {
		return nil, fmt.Errorf("fault %s: target %s is not a node: it takes a whole node, such as node/2 or node/leader", f.Name(), t.Asked)
	}
	n, err := node(c, t)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", f.Name(), err)
	}
	return n, nil
}

// wholeNodes returns the target's node, or all nodes of its zone.
func wholeNodes(f Fault, c framework.Cluster, t Target) ([]framework.Node, error) {
	if t.Component != "" || t.Host != "" || len(t.AllNodes()) == 0 {
		return nil, fmt.Errorf("fault %s: target %s is not a node: it takes a whole node or zone, such as node/2, node/leader or zone/b", f.Name(), t.Asked)
	}
	var nodes []framework.Node
	for _, name := range t.AllNodes() {
		n, err := node(c, Target{Asked: t.Asked, Node: name})
		if err != nil {
			return nil, fmt.Errorf("fault %s: %w", f.Name(), err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func nodeNames(nodes []framework.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// String names the target for people, as resolved: "etcd on node-2".
func (t Target) String() string {
	switch {
	case len(t.Nodes) > 0:
		return "nodes " + strings.Join(t.Nodes, ", ")
	case t.Component == "" && t.Host != "":
		return "host " + t.Host
	case t.Component == "":
		return "node " + t.Node
	case t.Node == "":
		return string(t.Component)
	}
	return string(t.Component) + " on " + t.Node
}
