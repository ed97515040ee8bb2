package keeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// scaled is a cluster of nodes with these names.
type scaled struct {
	made
	names []string
}

type scaledNode struct {
	framework.Node
	name string
}

func (n scaledNode) Name() string { return n.name }

func (c *scaled) Nodes() (all []framework.Node) {
	for _, name := range c.names {
		all = append(all, scaledNode{name: name})
	}
	return all
}

func (c *scaled) AddNode(context.Context) (framework.Node, error) {
	c.names = append(c.names, fmt.Sprintf("node-%d", len(c.names)+1))
	return c.Nodes()[len(c.names)-1], nil
}

func (c *scaled) RemoveNode(_ context.Context, name string) error {
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
	return nil
}

func TestScale(t *testing.T) {
	for _, tc := range []struct {
		r    ChangeRequest
		want string // the nodes after it
		says string // why it is refused
	}{
		{ChangeRequest{Nodes: 5}, "node-1 node-2 node-3 node-4 node-5", ""},
		{ChangeRequest{Nodes: 1}, "node-1", ""},
		{ChangeRequest{Nodes: 2, Node: "node-1"}, "node-2 node-3", ""},
		{ChangeRequest{Nodes: 1, Node: "node-2"}, "node-1", ""},
		{ChangeRequest{Nodes: 3, Node: "node-4"}, "node-1 node-2 node-3", ""}, // it was removed before
		{ChangeRequest{Nodes: 2, Node: "node-4"}, "", "no such node node-4; the nodes are node-1, node-2, node-3"},
		{ChangeRequest{Nodes: 3, Node: "node-1"}, "", "node node-1 cannot be removed and 3 nodes kept"},
		{ChangeRequest{Nodes: 5, Node: "node-1", Check: true}, "", "node node-1 cannot be removed and 5 nodes kept"},
	} {
		c := &scaled{names: []string{"node-1", "node-2", "node-3"}}
		refused, err := (&server{cluster: c}).scale(t.Context(), tc.r)
		switch {
		case tc.says == "" && (err != nil || strings.Join(c.names, " ") != tc.want):
			t.Errorf("%+v: %v, and then %v", tc.r, err, c.names)
		case tc.says != "" && (!refused || err == nil || !strings.Contains(err.Error(), tc.says) || len(c.names) != 3):
			t.Errorf("%+v: refused is %t, %v, and then %v", tc.r, refused, err, c.names)
		}
	}
}
