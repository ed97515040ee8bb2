package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.BackendReporter = (*Cluster)(nil)

// haproxySocket is HAProxy's stats socket, in its machine's run directory.
const haproxySocket = "haproxy.sock"

// Backends implements framework.BackendReporter.
func (c *Cluster) Backends(ctx context.Context) ([]framework.Backend, error) {
	var all []framework.Backend
	var err error
	switch c.spec.Spec.LoadBalancer.Kind {
	case clusters.BalancerNone:
	case clusters.BalancerHAProxy:
		all, err = balancer.HAProxyBackends(ctx, filepath.Join(c.balancer.run, haproxySocket))
	case clusters.BalancerNGINX:
		err = fmt.Errorf("NGINX without its commercial modules: %w", errors.ErrUnsupported)
	case clusters.BalancerVIP:
		all, err = c.vipBackends(ctx)
	default:
		all, err = c.builtinBackends(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to ask the balancer of cluster %s for its backends: %w", c.Name(), err)
	}
	return all, nil
}

func (c *Cluster) builtinBackends(ctx context.Context) ([]framework.Backend, error) {
	if nodes := c.controlPlane(); c.unbalanced(nodes) && !c.balancer.powered() {
		n := nodes[0]
		return []framework.Backend{{Name: n.Name(), Address: hostPort(n.Address(), component.APIServerPort), Up: n.machine.powered(),
			Check: "it has the load balancer's address itself"}}, nil
	}
	return balancer.Backends(ctx, hostPort(c.balancer.addr.Addr(), balancerStatusPort))
}

// vipBackends asks each node whether it holds the address: only the holder is up for clients. A
// node that does not answer is skipped, unless none does.
func (c *Cluster) vipBackends(ctx context.Context) ([]framework.Backend, error) {
	found := make([]*framework.Backend, len(c.nodes))
	problems := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var status vip.Status
			if problems[i] = balancer.ReadPage(ctx, hostPort(n.Address(), balancerStatusPort), &status); problems[i] == nil {
				found[i] = &framework.Backend{Name: n.Name(), Address: n.Address().String(), Up: status.Holder, Holder: status.Holder, Standby: status.Ready && !status.Holder,
					Since: status.Since.Round(time.Microsecond), Check: status.LastCheck}
			}
		})
	}
	wg.Wait()
	var all []framework.Backend
	for _, b := range found {
		if b != nil {
			all = append(all, *b)
		}
	}
	if len(all) == 0 {
		return nil, errors.Join(problems...)
	}
	return all, nil
}
