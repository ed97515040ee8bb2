package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Split splits the nodes into groups that cannot reach each other.
var Split = network(&Fault{
	Name:    "split",
	Summary: "splits the control-plane nodes into groups and drops every packet between two groups; the balancer, the workers and the harness reach all nodes unless they are assigned to a group",
	Targets: []string{"node"},
	Params: []Param{
		partiesParam("shape", "sizes of the groups, such as 1-2, 2-1 or 2-2-1, which add up to the number of nodes; the target is in the first group, and the others follow in the order of joining. "+
			"bridge: two halves that only the last node connects; the target is in the first").unless("1 and all others"),
		partiesParam("groups", "the groups themselves, separated by commas, and their nodes by +: node-1+node-2,node-3 (or 1+2,3); every node once, the target in the first group. Not together with shape"),
		partiesParam("hosts", "other hosts and the group that they are in, from 1, separated by commas: balancer:1,harness:2. They reach no node of the other groups").unless("none"),
		portsParam,
		flapParam,
	},
	Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter"},
	Example: "node/leader shape=1-2 hosts=balancer:2",
	Effects: does(record.EffectNetwork, record.EffectPartitioned),
}, func(r Request) (*impairment, error) {
	if _, err := r.node(); err != nil {
		return nil, err
	}
	// All nodes must be alive: a dead one belongs to no group.
	ends, err := r.nodeParties(r.Cluster.Nodes())
	if err != nil {
		return nil, err
	}
	x, err := r.cut(ends)
	if err != nil {
		return nil, err
	}
	groups, err := splitGroups(r)
	if err != nil {
		return nil, err
	}
	if err := splitHosts(r, x, groups); err != nil {
		return nil, err
	}
	ports := Value[portList](r, portsParam.Name).on(r.Cluster)
	for i, group := range groups {
		for _, other := range groups[i+1:] {
			x.links = append(x.links, linksBetween(group, other, "both", ports)...)
		}
	}
	return x, nil
})

// splitGroups returns the groups of nodes. A bridge belongs to none of them.
func splitGroups(r Request) ([][]string, error) {
	nodes := framework.NodeNames(r.Cluster.Nodes())
	if len(nodes) < 2 {
		return nil, fmt.Errorf("cluster %s has one control-plane node, which cannot be split", r.Cluster.Name())
	}
	if r.Values["groups"] != "" {
		if r.Values["shape"] != "" {
			return nil, fmt.Errorf("parameters shape=%q and groups=%q exclude each other: give one", r.Values["shape"], r.Values["groups"])
		}
		return explicitGroups(r, nodes)
	}
	order := append([]string{r.Target.Node}, slices.DeleteFunc(nodes, func(n string) bool { return n == r.Target.Node })...)
	shape := r.Values["shape"]
	if shape == "" {
		return [][]string{order[:1], order[1:]}, nil
	}
	if shape == "bridge" {
		if len(order) < 3 {
			return nil, r.bad("shape", "sizes such as 1-1 where there are two nodes: a bridge needs a third")
		}
		half := (len(order) - 1) / 2
		return [][]string{order[:half], order[half : len(order)-1]}, nil
	}
	var groups [][]string
	left := order
	for word := range strings.SplitSeq(shape, "-") {
		size, err := strconv.Atoi(word)
		if err != nil || size < 1 || size > len(left) {
			return nil, badShape(r, len(order))
		}
		groups, left = append(groups, left[:size]), left[size:]
	}
	if len(left) > 0 || len(groups) < 2 {
		return nil, badShape(r, len(order))
	}
	return groups, nil
}

func badShape(r Request, nodes int) error {
	return r.bad("shape", "bridge, or the sizes of two groups or more, such as 1-%d, which add up to the number of nodes, %d", nodes-1, nodes)
}

func explicitGroups(r Request, nodes []string) ([][]string, error) {
	var groups [][]string
	seen := map[string]bool{}
	for list := range strings.SplitSeq(r.Values["groups"], ",") {
		var group []string
		for word := range strings.SplitSeq(list, "+") {
			named := partiesNamed(r.Cluster, nodes, strings.TrimSpace(word))
			if len(named) == 0 {
				return nil, r.bad("groups", "groups of %s; %q is not one of them", listed(nodes), word)
			}
			for _, n := range named {
				if seen[n] {
					return nil, r.bad("groups", "groups with each node once; %s appears twice", n)
				}
				seen[n] = true
			}
			group = append(group, named...)
		}
		groups = append(groups, group)
	}
	for _, n := range nodes {
		if !seen[n] {
			return nil, r.bad("groups", "groups with each node once; %s is missing", n)
		}
	}
	if len(groups) < 2 || !slices.Contains(groups[0], r.Target.Node) {
		return nil, r.bad("groups", "two groups or more, with the target, %s, in the first one", r.Target.Node)
	}
	return groups, nil
}

// splitHosts adds the hosts on a side to their groups.
func splitHosts(r Request, x *impairment, groups [][]string) error {
	v := r.Values["hosts"]
	if v == "" {
		return nil
	}
	nodes := framework.NodeNames(r.Cluster.Nodes())
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(nodes, party) })
	for word := range strings.SplitSeq(v, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(word), ":")
		group, err := strconv.Atoi(number)
		if err != nil || group < 1 || group > len(groups) || !slices.Contains(others, name) {
			return r.bad("hosts", "a list of HOST:GROUP with each host once, hosts being %s and groups 1 to %d", listed(others), len(groups))
		}
		others = slices.DeleteFunc(others, func(o string) bool { return o == name })
		groups[group-1] = append(slices.Clone(groups[group-1]), name)
	}
	return nil
}
