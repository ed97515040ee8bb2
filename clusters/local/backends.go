package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.BackendReporter = (*Cluster)(nil)

// haproxySocket is HAProxy's stats socket, in its machine's run directory.
const haproxySocket = "haproxy.sock"

// Backends implements framework.BackendReporter.
func (c *Cluster) Backends(ctx context.Context) ([]framework.Backend, error) {
	var all []framework.Backend
	var err error
	switch {
	case c.balancer == nil:
	case c.spec.Spec.LoadBalancer.Kind == clusters.BalancerHAProxy:
		all, err = balancer.HAProxyBackends(ctx, filepath.Join(c.balancer.run, haproxySocket))
	default:
		all, err = c.builtinBackends(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the balancer of cluster %s for its backends: %w", c.Name(), err)
	}
	return all, nil
}

func (c *Cluster) builtinBackends(ctx context.Context) ([]framework.Backend, error) {
	url := "http://" + hostPort(c.balancer.addr.Addr(), balancerStatusPort)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	// A connection of its own each time: a kept one says nothing of a balancer
	// that was started anew.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var status balancer.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("its status page: %w", err)
	}
	var all []framework.Backend
	for _, b := range status.Backends {
		all = append(all, framework.Backend{Name: b.Name, Address: b.Address, Up: b.Healthy, Since: b.Since.Round(time.Microsecond), Check: b.LastCheck})
	}
	return all, nil
}
