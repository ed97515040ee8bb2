package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
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
		return nil, fmt.Errorf("asking the balancer of cluster %s for its backends: %w", c.Name(), err)
	}
	return all, nil
}

func (c *Cluster) builtinBackends(ctx context.Context) ([]framework.Backend, error) {
	if nodes := c.controlPlane(); c.unbalanced(nodes) && !c.balancer.powered() {
		n := nodes[0]
		return []framework.Backend{{Name: n.Name(), Address: hostPort(n.Address(), component.APIServerPort), Up: n.machine.powered(),
			Check: "it has the load balancer's address itself"}}, nil
	}
	var status balancer.Status
	if err := statusPage(ctx, c.balancer.addr.Addr(), &status); err != nil {
		return nil, err
	}
	var all []framework.Backend
	for _, b := range status.Backends {
		all = append(all, framework.Backend{Name: b.Name, Address: b.Address, Up: b.Healthy, Since: b.Since.Round(time.Microsecond), Check: b.LastCheck})
	}
	return all, nil
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
			if problems[i] = statusPage(ctx, n.Address(), &status); problems[i] == nil {
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

// statusPage reads a status page into what it holds.
func statusPage(ctx context.Context, of netip.Addr, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+hostPort(of, balancerStatusPort), nil)
	if err != nil {
		return err
	}
	// A new connection each time: a kept one shows nothing about a balancer that was restarted.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("its status page: %w", err)
	}
	return nil
}
