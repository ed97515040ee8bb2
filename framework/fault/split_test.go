package fault

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestSplit(t *testing.T) {
	for _, params := range []map[string]string{nil, {"shape": "1-1-1", "hosts": "harness:3"}, {"groups": "node-2+node-3,1"}} {
		proofs{
			fault:   Split,
			target:  wholeTarget("node-2"),
			params:  params,
			broken:  func(c *fakeCluster) bool { return c.severed("node-1", "node-2", 2380) },
			already: func(c *fakeCluster) { c.nodes[0].power(false) },
		}.run(t)
	}
}

// nodesOf returns a fake cluster with that many nodes.
func nodesOf(n int) *fakeCluster {
	c := newFake(framework.APIServer)
	for i := len(c.nodes); i < n; i++ {
		more := newFake(framework.APIServer).nodes[0]
		more.c, more.name = c, fmt.Sprintf("node-%d", i+1)
		c.nodes = append(c.nodes, more)
	}
	c.nodes = c.nodes[:n]
	return c
}

func TestSplitGroups(t *testing.T) {
	for _, tc := range []struct {
		nodes  int
		target string
		params map[string]string
		// groups of parties that see each other, and no other group
		groups string
		// free parties see everyone
		free string
	}{
		{3, "node-2", nil, "2|1 3", "balancer harness workers"},
		{3, "node-1", map[string]string{"shape": "1-2"}, "1|2 3", "balancer harness workers"},
		{3, "node-3", map[string]string{"shape": "2-1"}, "3 1|2", "balancer harness workers"},
		{3, "node-3", map[string]string{"shape": "1-1-1"}, "3|1|2", "balancer harness workers"},
		{5, "node-4", map[string]string{"shape": "2-2-1"}, "4 1|2 3|5", "balancer"},
		{3, "node-2", map[string]string{"shape": "bridge"}, "2|1", "3 balancer harness workers"},
		{5, "node-1", map[string]string{"shape": "bridge"}, "1 2|3 4", "5 balancer"},
		{4, "node-1", map[string]string{"shape": "bridge"}, "1|2 3", "4 balancer"},
		{5, "node-3", map[string]string{"shape": "3-2", "hosts": "harness:1,balancer:2"}, "3 1 2 harness|4 5 balancer", "workers"},
		{3, "node-1", map[string]string{"groups": "node-1 + 3,node-2", "hosts": "harness:2"}, "1 3|2 harness", "balancer"},
		{3, "node-2", map[string]string{"groups": "zone/b,1"}, "2 3|1", "balancer"},
		{2, "node-2", nil, "2|1", "balancer"},
	} {
		name := fmt.Sprint(tc.nodes, tc.target, tc.params)
		c := nodesOf(tc.nodes)
		x, err := impairmentOf(Split, c, wholeTarget(tc.target), tc.params)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cut := func(a, b string) bool {
			return slices.ContainsFunc(x.links, func(l framework.Link) bool { return l.From == a && l.To == b && l.Ports == nil })
		}
		words := func(s string) []string {
			all := strings.Fields(s)
			for i, w := range all {
				if len(w) == 1 {
					all[i] = "node-" + w
				}
			}
			return all
		}
		var groups [][]string
		for g := range strings.SplitSeq(tc.groups, "|") {
			groups = append(groups, words(g))
		}
		links := 0
		for i, g := range groups {
			for j, h := range groups {
				for _, a := range g {
					for _, b := range h {
						if a == b {
							continue
						}
						if cut(a, b) != (i != j) {
							t.Errorf("%s: cut from %s to %s is %v", name, a, b, cut(a, b))
						}
						if i != j {
							links++
						}
					}
				}
			}
		}
		if len(x.links) != links {
			t.Errorf("%s: %d links, want %d: %v", name, len(x.links), links, x.links)
		}
		for _, f := range words(tc.free) {
			if x.touches(f) {
				t.Errorf("%s: %s is on a side", name, f)
			}
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for _, tc := range []struct {
		nodes  int
		params map[string]string
		want   string
	}{
		{3, map[string]string{"shape": "2-2"}, "number of nodes, 3"},
		{3, map[string]string{"shape": "1-1"}, "number of nodes, 3"},
		{3, map[string]string{"shape": "3"}, "two groups or more"},
		{3, map[string]string{"shape": "3-0"}, "two groups or more"},
		{3, map[string]string{"shape": "half"}, "bridge, or"},
		{2, map[string]string{"shape": "bridge"}, "a bridge needs a third"},
		{1, nil, "one control-plane node"},
		{3, map[string]string{"groups": "node-1,node-2"}, "node-3 is missing"},
		{3, map[string]string{"groups": "node-1,node-2+node-3+1"}, "node-1 appears twice"},
		{3, map[string]string{"groups": "node-1,node-2+node-4"}, `"node-4" is not one of them`},
		{3, map[string]string{"groups": "node-1,node-2+harness"}, "is not one of them"},
		{3, map[string]string{"groups": "node-2,node-1+node-3"}, "node-1, in the first one"},
		{3, map[string]string{"groups": "1+2+3"}, "two groups or more"},
		{3, map[string]string{"groups": "1,2+3", "shape": "1-2"}, "exclude each other"},
		{3, map[string]string{"hosts": "harness:3"}, "groups 1 to 2"},
		{3, map[string]string{"hosts": "harness"}, "HOST:GROUP"},
		{3, map[string]string{"hosts": "harness:1,harness:2"}, "each host once"},
		{3, map[string]string{"hosts": "node-2:1"}, "HOST:GROUP"},
		{3, map[string]string{"direction": "in"}, "is unknown"},
		{3, map[string]string{"port": "x"}, "etcd-peer"},
	} {
		err := Split.Check(nodesOf(tc.nodes), wholeTarget("node-1"), Params{TTL: ttl, Values: tc.params})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d nodes, %v: %v, want words %q", tc.nodes, tc.params, err, tc.want)
		}
	}
	if err := Split.Check(nodesOf(3), component("node-1", framework.APIServer), Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "the fault accepts node") {
		t.Errorf("a component: %v", err)
	}
}
