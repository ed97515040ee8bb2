package kind

import (
	"archive/tar"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/clusters/kind/balancer"
	"github.com/holdfast-ha/holdfast/framework"
)

// balanceLimit is how long the balancer may take to follow a change of nodes, and to find that
// a new API server is ready: it checks every 2 s.
const balanceLimit = 20 * time.Second

// balance makes the balancer use the API servers of these nodes, without a restart. It returns
// once the balancer does, and sends clients to the server of up if that is given. The Envoy
// that kind starts if its image is available does not report when it does.
func (c *Cluster) balance(ctx context.Context, nodes []*node, up *node) error {
	if c.balancer == nil {
		return nil
	}
	ctx, cancel := agenthttp.Within(ctx, balanceLimit)
	defer cancel()
	if err := c.rebalance(ctx, nodes); err != nil {
		return fmt.Errorf("failed to update the load balancer with the API servers of %v: %w", framework.NodeNames(nodes), err)
	}
	ready := ""
	if up != nil {
		ready = up.name
	}
	return scaling.AwaitBackends(ctx, c, framework.NodeNames(nodes), ready)
}

// balanceStep is balance as a step of a change of a node.
func (c *Cluster) balanceStep(ctx context.Context, n *node, step string, nodes []*node, up *node) error {
	if c.balancer == nil {
		return nil
	}
	return framework.DoStep(ctx, n.name, step, func(ctx context.Context) (string, error) {
		return fmt.Sprintf("the load balancer has the backends %v", framework.NodeNames(nodes)), c.balance(ctx, nodes, up)
	})
}

// rebalance replaces the file of clusters by renaming a new one, as kind does.
func (c *Cluster) rebalance(ctx context.Context, nodes []*node) error {
	b := c.balancer
	old, err := b.docker(ctx, "exec", b.name, "cat", balancer.ClustersFile)
	if err != nil {
		return err
	}
	servers := framework.Names(nodes, func(n *node) string { return net.JoinHostPort(n.name, apiServerPort) })
	changed, err := balancer.WithServers([]byte(old), servers)
	if err != nil {
		return err
	}
	const next = balancer.ClustersFile + ".tmp"
	if err := b.put(ctx, func(t *tar.Writer) error { return agent.AddFiles(t, map[string][]byte{next: changed}, 0o644) }); err != nil {
		return err
	}
	_, err = b.docker(ctx, "exec", b.name, "mv", next, balancer.ClustersFile)
	return err
}
