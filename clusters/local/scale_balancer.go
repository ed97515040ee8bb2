package local

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// balancerConfig is the configuration of any kind of balancer for some nodes.
func (c *Cluster) balancerConfig(nodes []*node) balancer.Config {
	addr := host(balancerHost).Addr()
	config := balancer.Config{Listen: hostPort(addr, component.APIServerPort), Status: hostPort(addr, balancerStatusPort),
		HealthCheck: c.spec.Spec.LoadBalancer.HealthCheck}
	for _, n := range nodes {
		config.Backends = append(config.Backends, balancer.Backend{Name: n.Name(), Address: hostPort(n.Address(), component.APIServerPort)})
	}
	return config
}

// The files of balancers' configurations, in their machine's directory.
const (
	haproxyFile = "haproxy.cfg"
	builtinFile = "balancer.json"
)

// balances checks whether the balancer can follow a change of nodes.
func (c *Cluster) balances() error {
	switch kind := c.spec.Spec.LoadBalancer.Kind; kind {
	case clusters.BalancerNone, clusters.BalancerBuiltin, clusters.BalancerHAProxy, clusters.BalancerOnDemand:
		return nil
	default:
		return fmt.Errorf("a load balancer of kind %s cannot be given other API servers while it runs", kind)
	}
}

// balance makes the balancer use the API servers of these nodes, without a restart, and returns
// when it does.
func (c *Cluster) balance(ctx context.Context, nodes []*node) error {
	if c.balancer == nil {
		return nil
	}
	if c.unbalanced(nodes) {
		return c.endBalancer(ctx, nodes[0])
	}
	ctx, cancel := agenthttp.Within(ctx, agentLimit)
	defer cancel()
	if err := c.rebalance(ctx, c.balancerConfig(nodes)); err != nil {
		return fmt.Errorf("failed to update the load balancer with the API servers of %v: %w", framework.NodeNames(nodes), err)
	}
	return scaling.AwaitBackends(ctx, c, framework.NodeNames(nodes), "")
}

// balanceStep is balance as a step of a change of a node.
func (c *Cluster) balanceStep(ctx context.Context, n *node, step string, nodes []*node) error {
	if c.balancer == nil {
		return nil
	}
	return framework.DoStep(ctx, n.Name(), step, func(ctx context.Context) (string, error) {
		if c.unbalanced(nodes) {
			return nodes[0].Name() + " has the load balancer's address", c.balance(ctx, nodes)
		}
		return fmt.Sprintf("the load balancer has the backends %v", framework.NodeNames(nodes)), c.balance(ctx, nodes)
	})
}

// unbalanced reports whether the cluster runs without its load balancer: the balancer runs on
// demand and there is a single node.
func (c *Cluster) unbalanced(nodes []*node) bool {
	return c.spec.Spec.LoadBalancer.Kind == clusters.BalancerOnDemand && len(nodes) == 1
}

// endBalancer stops an on-demand load balancer and moves its address to the only node, so that
// clients keep their configuration.
func (c *Cluster) endBalancer(ctx context.Context, n *node) error {
	return framework.DoStep(ctx, framework.BalancerHost, record.StepBalancerEnd, func(ctx context.Context) (string, error) {
		if c.balancer.powered() {
			if err := c.balancer.powerOff(0); err != nil {
				return "", err
			}
		}
		return n.Name() + " has its address", n.machine.claim(ctx, c.balancer.addr.Addr())
	})
}

// startBalancer moves the address back to the load balancer and starts it.
func (c *Cluster) startBalancer(ctx context.Context) error {
	return framework.DoStep(ctx, framework.BalancerHost, record.StepBalancerStart, func(ctx context.Context) (string, error) {
		for _, n := range c.controlPlane() {
			if err := n.machine.claim(ctx, netip.Addr{}); err != nil {
				return "", err
			}
		}
		return "it has its address again", c.balancer.powerOn(ctx)
	})
}

func (c *Cluster) rebalance(ctx context.Context, config balancer.Config) error {
	if c.spec.Spec.LoadBalancer.Kind == clusters.BalancerHAProxy {
		socket := filepath.Join(c.balancer.run, haproxySocket)
		text, err := balancer.HAProxyConfig(config, socket)
		if err == nil {
			err = system.ReplaceFile(filepath.Join(c.balancer.dir, haproxyFile), text, 0o600, false)
		}
		if err != nil {
			return err
		}
		return balancer.HAProxyFollow(ctx, socket, config)
	}
	if err := system.WriteJSON(filepath.Join(c.balancer.dir, builtinFile), config); err != nil {
		return err
	}
	if !c.balancer.powered() && c.spec.Spec.LoadBalancer.Kind == clusters.BalancerOnDemand {
		return c.startBalancer(ctx)
	}
	return c.balancer.agent.Reload(ctx, framework.LoadBalancer)
}
