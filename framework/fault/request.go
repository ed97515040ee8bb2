package fault

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Request is one requested injection. Its parameters are parsed and the fault accepts its kind of
// target.
type Request struct {
	Fault   *Fault
	Cluster framework.Cluster
	Target  Target
	// TTL is the time after which the provider heals the fault automatically; greater than zero.
	TTL time.Duration
	// Values are the parameters as given, by name.
	Values map[string]string

	read map[string]any
}

// request parses a requested injection.
func (f *Fault) request(c framework.Cluster, t Target, p Params) (Request, error) {
	r := Request{Fault: f, Cluster: c, Target: t, TTL: p.TTL, Values: p.Values, read: map[string]any{}}
	if p.TTL <= 0 {
		return r, fmt.Errorf("fault %s: time to live %s: it must be above zero, so that the fault heals even if the harness is killed", f.Name, p.TTL)
	}
	if err := r.readParams(); err != nil {
		return r, fmt.Errorf("fault %s: %w", f.Name, err)
	}
	if err := r.checkTarget(); err != nil {
		return r, fmt.Errorf("fault %s: %w", f.Name, err)
	}
	if f.Promised {
		return r, r.checkUndo()
	}
	return r, nil
}

func (r Request) readParams() error {
	for _, p := range r.Fault.Params {
		v, ok := p.parse(r.Values[p.Name])
		if !ok {
			return r.bad(p.Name, "%s", p.Allowed)
		}
		r.read[p.Name] = v
	}
	names := r.Fault.ParamNames()
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		switch {
		case slices.Contains(names, name):
		case len(names) == 0:
			return fmt.Errorf("parameter %q is unknown: the fault accepts none", name)
		default:
			return fmt.Errorf("parameter %q is unknown: the fault accepts %s", name, listed(names))
		}
	}
	return nil
}

// ParamNames returns the names of the fault's parameters, sorted.
func (f *Fault) ParamNames() []string {
	return slices.Sorted(slices.Values(framework.Names(f.Params, func(p Param) string { return p.Name })))
}

// checkTarget refuses a target of a kind that the fault does not accept.
func (r Request) checkTarget() error {
	if len(r.Fault.Targets) == 0 {
		return nil
	}
	kinds := r.Target.kinds()
	var accepted []string
	for _, a := range r.Fault.Targets {
		a, _, _ = strings.Cut(a, " ")
		accepted = append(accepted, a)
		if kind, _, _ := strings.Cut(a, "/"); slices.Contains(kinds, kind) {
			return nil
		}
	}
	example, _, _ := strings.Cut(r.Fault.Example, " ")
	return fmt.Errorf("target %s: the fault accepts %s, such as %s", r.Target.Asked, listed(accepted), example)
}

// kinds are the words for the target's kind in Fault.Targets.
func (t Target) kinds() []string {
	switch {
	case t.Component == framework.NodeAgent:
		return []string{"agent"}
	case t.Component != "":
		words := []string{string(t.Component)}
		for _, k := range kinds() {
			if k.component == t.Component {
				words = append(words, k.names[0])
			}
		}
		for _, h := range hosts() {
			if h.component == t.Component {
				return append(words, h.names[0])
			}
		}
		return append(words, "component")
	case t.Host != "":
		return []string{t.Host}
	case t.Node != "":
		return []string{"node"}
	case t.Asked == everyNode:
		return []string{everyNode}
	case len(t.Nodes) > 0:
		return []string{strings.TrimSuffix(zonePrefix, "/")}
	}
	return nil
}

// bad returns the error of a parameter with an invalid value.
func (r Request) bad(param, format string, args ...any) error {
	return fmt.Errorf("parameter %s=%q: it must be %s", param, r.Values[param], fmt.Sprintf(format, args...))
}

// Value returns a parameter of a request as its Param parses it. It panics if the fault has
// no such parameter of that type.
func Value[T any](r Request, param string) T { return r.read[param].(T) }

// node returns the target's node.
func (r Request) node() (framework.Node, error) {
	return nodeNamed(r.Cluster, r.Target.Node, r.Target.Asked)
}

func nodeNamed(c framework.Cluster, name, target string) (framework.Node, error) {
	nodes := c.Nodes()
	i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("target %s: control-plane node %q does not exist: the nodes are %s", target, name, listed(framework.NodeNames(nodes)))
	}
	return nodes[i], nil
}

// nodes returns the target's node, or all nodes of its zone.
func (r Request) nodes() ([]framework.Node, error) {
	var nodes []framework.Node
	for _, name := range r.Target.AllNodes() {
		n, err := nodeNamed(r.Cluster, name, r.Target.Asked)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// holder returns the owner of the abilities on the target: its node, or the cluster for
// components that are on no node (the load balancer, kwok).
func (r Request) holder() (holder any, of string, err error) {
	t := r.Target
	if t.Host != "" {
		return r.Cluster, "cluster " + r.Cluster.Name(), nil
	}
	n, err := r.node()
	if err != nil {
		return nil, "", err
	}
	if t.Component != "" && t.Component != framework.NodeAgent && !slices.Contains(n.Components(), t.Component) {
		return nil, "", fmt.Errorf("target %s: node %s does not run %s", t.Asked, n.Name(), t.Component)
	}
	return n, "node " + n.Name(), nil
}

// apiServer returns the entrance to the target, an API server.
func (r Request) apiServer() (e framework.Entrance, err error) {
	if _, _, err := r.holder(); err != nil {
		return e, err
	}
	e, ok := entranceOf(r.Cluster, r.Target.Node, framework.APIServer)
	if !ok {
		return e, fmt.Errorf("cluster %s has no entrance to the API server on %s", r.Cluster.Name(), r.Target.Node)
	}
	return e, nil
}

// MissingAbility reports that the provider cannot do what a fault or a target needs. The fault or
// target is then not applicable to the cluster.
type MissingAbility struct {
	Ability string // such as "Killer"
	Of      string // what lacks it, such as "node node-2"
	For     string // what needs it, such as "fault kill"
	Why     string // why it is missing, if that depends on more than the provider
}

// loadBalancer is what a cluster without one lacks.
const loadBalancer = "load balancer"

func (e *MissingAbility) Error() string {
	if e.Ability == "DiskFaulter" && e.Why == "" {
		return fmt.Sprintf("%s needs a FUSE disk under etcd, which %s does not have: create the cluster with holdfast up --disk fuse, or with disk: fuse in its file", e.For, e.Of)
	}
	if e.Ability == loadBalancer {
		return fmt.Sprintf("%s: %s has no load balancer", e.For, e.Of)
	}
	if e.Why != "" {
		return fmt.Sprintf("%s needs the ability %s, which %s does not have: %s", e.For, e.Ability, e.Of, e.Why)
	}
	return fmt.Sprintf("%s needs the ability %s, which %s does not have with this provider", e.For, e.Ability, e.Of)
}

// unsupported turns an error that is errors.ErrUnsupported into a missing ability; it returns any other
// unchanged.
func unsupported(err error, ability, of, what string) error {
	if _, missing := errors.AsType[*MissingAbility](err); missing || !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return &MissingAbility{Ability: ability, Of: of, For: what, Why: err.Error()}
}

// Lacking returns the error that a node or a cluster does not have an ability that something needs,
// with the reason that it gives, if it gives one.
func Lacking(holder any, ability, of, what string) *MissingAbility {
	missing := &MissingAbility{Ability: ability, Of: of, For: what}
	if e, ok := holder.(framework.Explainer); ok {
		missing.Why = e.WhyNot(ability)
	}
	return missing
}

// Ability returns the ability A of a node or cluster; the error is a *MissingAbility.
func Ability[A any](holder any, of, what string) (A, error) {
	a, ok := holder.(A)
	if !ok {
		return a, Lacking(holder, reflect.TypeFor[A]().Name(), of, what)
	}
	return a, nil
}

// onTarget returns the ability A on the request's target.
func onTarget[A any](r Request) (a A, err error) {
	holder, of, err := r.holder()
	if err != nil {
		return a, err
	}
	return Ability[A](holder, of, r.what())
}

// onNode returns the ability A of a node.
func onNode[A any](r Request, n framework.Node) (A, error) {
	return Ability[A](n, "node "+n.Name(), r.what())
}

// onCluster returns the ability A of the request's cluster.
func onCluster[A any](r Request) (A, error) {
	return Ability[A](r.Cluster, "cluster "+r.Cluster.Name(), r.what())
}

// what names the request in errors.
func (r Request) what() string { return "fault " + r.Fault.Name }

// missing returns the error that the cluster or one of its parts does not have an ability.
func (r Request) missing(ability, of, why string) error {
	return &MissingAbility{Ability: ability, Of: of, For: r.what(), Why: why}
}

func listed(words []string) string { return strings.Join(words, ", ") }

// String returns a readable name of the target as resolved: "etcd on node-2".
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
