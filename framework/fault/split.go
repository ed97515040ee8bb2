package fault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// Split parts the nodes into groups that do not hear each other.
var Split Fault = split{}

type split struct{}

func (split) Name() string { return "split" }

func (split) Doc() Doc {
	return Doc{
		Summary: "parts the control-plane nodes into groups and drops every packet between two groups; the balancer, the workers and the harness reach all nodes unless they are put on a side",
		Targets: []string{"node"},
		Params: map[string]string{
			"shape": "sizes of the groups, such as 1-2, 2-1 or 2-2-1, which add up to the number of nodes; the target is in the first group, and the others follow in the order of joining. " +
				"bridge: two halves, the target in the first one, that only the last node hears, and which only hear it; default 1 and all others",
			"groups": "the groups themselves, separated by commas, and their nodes by +: node-1+node-2,node-3 (or 1+2,3); every node once, the target in the first group. Not together with shape",
			"hosts":  "other hosts and the group that they are in, from 1, separated by commas: balancer:1,harness:2. They reach no node of the other groups; default none",
			"port":   portDoc,
			"flap":   flapDoc,
		},
		Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter"},
		Example: "node/leader shape=1-2 hosts=balancer:2",
	}
}

func (f split) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.impairment(c, t, p)
	return err
}

func (f split) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.impairment(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}

func (f split) impairment(c framework.Cluster, t Target, p Params) (*impairment, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	if _, err := wholeNode(f, c, t); err != nil {
		return nil, err
	}
	// All nodes must be alive: one that is dead is in no group.
	ends, err := nodeParties(f, c.Nodes())
	if err != nil {
		return nil, err
	}
	x, err := newCut(f, c, t, p, ends)
	if err != nil {
		return nil, err
	}
	ports, err := portParam(f, p, nil)
	if err != nil {
		return nil, err
	}
	groups, err := f.groups(c, t, p)
	if err != nil {
		return nil, err
	}
	if err := f.hosts(x, p, groups); err != nil {
		return nil, err
	}
	for i, group := range groups {
		for _, other := range groups[i+1:] {
			x.links = append(x.links, linksBetween(group, other, "both", ports)...)
		}
	}
	return x, x.check()
}

// groups returns the groups of nodes. A bridge is in none of them.
func (f split) groups(c framework.Cluster, t Target, p Params) ([][]string, error) {
	nodes := nodeNames(c.Nodes())
	if len(nodes) < 2 {
		return nil, fmt.Errorf("fault split: cluster %s has one control-plane node, which cannot be parted", c.Name())
	}
	if p.Values["groups"] != "" {
		if p.Values["shape"] != "" {
			return nil, fmt.Errorf("fault split: parameters shape=%q and groups=%q exclude each other: give one", p.Values["shape"], p.Values["groups"])
		}
		return f.explicit(c, t, p, nodes)
	}
	order := append([]string{t.Node}, slices.DeleteFunc(nodes, func(n string) bool { return n == t.Node })...)
	shape := p.Values["shape"]
	if shape == "" {
		return [][]string{order[:1], order[1:]}, nil
	}
	if shape == "bridge" {
		if len(order) < 3 {
			return nil, badParam(f, p, "shape", "sizes such as 1-1 where there are two nodes: a bridge needs a third")
		}
		half := (len(order) - 1) / 2
		return [][]string{order[:half], order[half : len(order)-1]}, nil
	}
	var groups [][]string
	left := order
	for word := range strings.SplitSeq(shape, "-") {
		size, err := strconv.Atoi(word)
		if err != nil || size < 1 || size > len(left) {
			return nil, f.badShape(p, len(order))
		}
		groups, left = append(groups, left[:size]), left[size:]
	}
	if len(left) > 0 || len(groups) < 2 {
		return nil, f.badShape(p, len(order))
	}
	return groups, nil
}

func (f split) badShape(p Params, nodes int) error {
	return badParam(f, p, "shape", "bridge, or the sizes of two groups or more, such as 1-%d, which add up to the number of nodes, %d", nodes-1, nodes)
}

func (f split) explicit(c framework.Cluster, t Target, p Params, nodes []string) ([][]string, error) {
	var groups [][]string
	seen := map[string]bool{}
	for list := range strings.SplitSeq(p.Values["groups"], ",") {
		var group []string
		for word := range strings.SplitSeq(list, "+") {
			named := partiesNamed(c, nodes, strings.TrimSpace(word))
			if len(named) == 0 {
				return nil, badParam(f, p, "groups", "groups of %s; %q is none of them", listed(nodes), word)
			}
			for _, n := range named {
				if seen[n] {
					return nil, badParam(f, p, "groups", "groups in which each node is once; %s is in there twice", n)
				}
				seen[n] = true
			}
			group = append(group, named...)
		}
		groups = append(groups, group)
	}
	for _, n := range nodes {
		if !seen[n] {
			return nil, badParam(f, p, "groups", "groups in which each node is once; %s is missing", n)
		}
	}
	if len(groups) < 2 || !slices.Contains(groups[0], t.Node) {
		return nil, badParam(f, p, "groups", "two groups or more, with the target, %s, in the first one", t.Node)
	}
	return groups, nil
}

// hosts adds the hosts that are on a side to their groups.
func (f split) hosts(x *impairment, p Params, groups [][]string) error {
	v := p.Values["hosts"]
	if v == "" {
		return nil
	}
	nodes := nodeNames(x.cluster.Nodes())
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(nodes, party) })
	for word := range strings.SplitSeq(v, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(word), ":")
		group, err := strconv.Atoi(number)
		if err != nil || group < 1 || group > len(groups) || !slices.Contains(others, name) {
			return badParam(f, p, "hosts", "a list of HOST:GROUP with each host once, hosts being %s and groups 1 to %d", listed(others), len(groups))
		}
		others = slices.DeleteFunc(others, func(o string) bool { return o == name })
		groups[group-1] = append(slices.Clone(groups[group-1]), name)
	}
	return nil
}
