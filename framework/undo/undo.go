// Package undo undoes faults that went through etcd or the API when the process that injected them
// cannot: on the cluster's side, with etcd and the abilities of nodes alone. API servers may not
// answer there, and no type of Kubernetes is needed: node agents are small without them.
package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
)

// Cluster is the cluster as seen from where the fault is undone.
type Cluster interface {
	framework.EtcdAccess
	// Nodes returns the control-plane nodes: on a node, only those with an etcd member. Some may lack
	// abilities.
	Nodes() []framework.Node
}

// Do carries u out. What needs abilities that a node lacks is left to others.
func Do(ctx context.Context, c Cluster, u framework.Undoing) error {
	if err := do(ctx, c, u); err != nil {
		return fmt.Errorf("failed to undo %s: %w", u.Fault, err)
	}
	return nil
}

func do(ctx context.Context, c Cluster, u framework.Undoing) error {
	if err := u.Check(); err != nil {
		return err
	}
	if u.Restart != nil {
		return restart(ctx, c, u.Restart)
	}
	var nodes []string
	for _, n := range c.Nodes() {
		if slices.Contains(n.Components(), framework.Etcd) {
			nodes = append(nodes, n.Name())
		}
	}
	all, err := members.OpenAll(c, nodes)
	if err != nil {
		return err
	}
	defer all.Close()
	switch {
	case u.Disarm != nil:
		kind, ok := pb.AlarmType_value[u.Disarm.Type]
		if !ok {
			return fmt.Errorf("alarm %q is unknown", u.Disarm.Type)
		}
		return all.Disarm(ctx, u.Disarm.Member, pb.AlarmType(kind))
	case u.FreeSpace != "":
		return all.FreeSpace(ctx, u.FreeSpace)
	case len(u.Delete) > 0:
		return deleteKeys(ctx, all, u.Delete)
	case u.Release != nil:
		return release(ctx, all, *u.Release)
	default:
		return rejoin(ctx, c, all, u.Node, u.Rejoin)
	}
}

func deleteKeys(ctx context.Context, all members.All, keys []string) error {
	var problems []error
	for _, key := range keys {
		problems = append(problems, all.First(ctx, func(ctx context.Context, m members.Member) error {
			_, err := m.Client.Delete(ctx, key)
			return err
		}))
	}
	return errors.Join(problems...)
}

func rejoin(ctx context.Context, c Cluster, all members.All, node string, urls []string) error {
	nodes := c.Nodes()
	i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == node })
	if i < 0 {
		return fmt.Errorf("control-plane node %q does not exist: the nodes are %s", node, strings.Join(framework.NodeNames(nodes), ", "))
	}
	rejoiner, ok := nodes[i].(framework.EtcdRejoiner)
	if !ok {
		return nil
	}
	return all.Rejoin(ctx, rejoiner, node, urls)
}
