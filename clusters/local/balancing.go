package local

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/framework"
)

// Lacks implements clusters.Provider. It reports what this machine is missing for the cluster's load
// balancer, and how to install it.
func (Provider) Lacks(c *clusters.Cluster) string {
	var err error
	switch c.Spec.LoadBalancer.Kind {
	case clusters.BalancerHAProxy:
		err = balancer.HAProxyInstalled()
	case clusters.BalancerNGINX:
		err = balancer.NGINXInstalled()
	case clusters.BalancerDNS:
		if !hasNames() {
			err = errNoNames
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// addBalancer creates what the cluster's load balancer needs, and its entrance.
func (c *Cluster) addBalancer() error {
	url := component.APIServerURL(host(balancerHost).Addr())
	switch c.spec.Spec.LoadBalancer.Kind {
	case clusters.BalancerNone:
		return nil
	case clusters.BalancerVIP:
		// The nodes have it all.
	case clusters.BalancerDNS:
		url = "https://" + net.JoinHostPort(pki.BalancerName(c.Name()), strconv.Itoa(component.APIServerPort))
		fallthrough
	default:
		if err := c.makeBalancer(); err != nil {
			return err
		}
	}
	e, err := c.entrance(framework.BalancerHost, framework.EntranceBalancer, "", url)
	if err != nil {
		return err
	}
	if c.spec.Spec.LoadBalancer.Kind == clusters.BalancerDNS {
		e.Config.Dial = c.dialer().DialContext
	}
	c.entrances = append(c.entrances, e)
	return nil
}

// dialer returns the dialer of clients on the harness, with names from the cluster's own DNS,
// resolved for each connection. Addresses are tried in the order of the answer until one
// accepts, all within the timeout. Keep-alives notice a server that stopped responding.
func (c *Cluster) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
	if c.names != nil {
		server := hostPort(host(harnessHost).Addr(), dnsPort)
		d.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server)
		}}
	}
	return d
}

// addVIP puts the holder of the virtual address on a node's machine.
func (c *Cluster) addVIP(m *machine, members []component.Member) error {
	config := vip.Config{Name: m.name, Device: machineDevice, Address: host(balancerHost).Addr(),
		Status: hostPort(m.addr.Addr(), balancerStatusPort), Check: "https://" + hostPort(m.addr.Addr(), component.APIServerPort) + "/readyz",
		HealthCheck: c.spec.Spec.LoadBalancer.HealthCheck}
	for _, other := range members {
		config.Nodes = append(config.Nodes, vip.Node{Name: other.Name, Address: other.Address})
	}
	return m.addProgram(framework.VirtualIP, "vip.json", config, roleVIP)
}
