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
}

func (e *MissingAbility) Error() string {
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

// boolParam returns a parameter that is "true" or "false"; unset is false.
func boolParam(f Fault, p Params, name string) (bool, error) {
	switch v := p.Values[name]; v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("fault %s: parameter %s=%q: it must be true or false", f.Name(), name, v)
	}
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
// node, or the cluster for the load balancer, which is on no node.
func componentHolder(f Fault, c framework.Cluster, t Target) (holder any, of string, err error) {
	if t.Component == "" {
		return nil, "", fmt.Errorf("fault %s: target %s is a whole node: it takes a component, such as etcd/leader or apiserver/2", f.Name(), t.Asked)
	}
	if t.Component == framework.LoadBalancer && t.Node == "" {
		return c, "cluster " + c.Name(), nil
	}
	n, err := node(c, t)
	if err != nil {
		return nil, "", fmt.Errorf("fault %s: %w", f.Name(), err)
	}
	if !slices.Contains(n.Components(), t.Component) {
		return nil, "", fmt.Errorf("fault %s: target %s: node %s does not run %s", f.Name(), t.Asked, n.Name(), t.Component)
	}
	return n, "node " + n.Name(), nil
}

// wholeNode returns the target's node, and refuses a component.
func wholeNode(f Fault, c framework.Cluster, t Target) (framework.Node, error) {
	if t.Component != "" {
		return nil, fmt.Errorf("fault %s: target %s is a component: it takes a whole node, such as node/2 or node/leader", f.Name(), t.Asked)
	}
	n, err := node(c, t)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", f.Name(), err)
	}
	return n, nil
}

func nodeNames(nodes []framework.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// where names the target for people: "etcd on node-2".
func (t Target) where() string {
	switch {
	case t.Component == "":
		return "node " + t.Node
	case t.Node == "":
		return string(t.Component)
	}
	return string(t.Component) + " on " + t.Node
}
