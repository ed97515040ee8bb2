package kind

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

// node is a container of the cluster. Its agent gives it abilities on components,
// certificates and etcd's data.
type node struct {
	*agent.Client
	cluster *Cluster
	name    string
	address netip.Addr
	role    string
	// spec is the requested version, etcd the version that kubeadm chose; for control-plane
	// nodes only. An upgrade changes both versions, with the mu of the cluster held.
	spec clusters.Node
	etcd string
	// added reports that holdfast added it to the running cluster.
	added bool
	// upgraded reports that the node's image has another version than the node.
	// Guarded by the scaling of the cluster.
	upgraded bool

	mu     sync.Mutex
	guards guards // guarded by mu
}

var (
	_ framework.Node            = (*node)(nil)
	_ framework.Zoner           = (*node)(nil)
	_ framework.PowerSwitch     = (*node)(nil)
	_ framework.BootReporter    = (*node)(nil)
	_ framework.Pauser          = (*node)(nil)
	_ framework.ProcessReporter = (*node)(nil)
	_ framework.Killer          = (*node)(nil)
	_ framework.Freezer         = (*node)(nil)
	_ framework.CrashLooper     = (*node)(nil)

	_ framework.AuditReader        = (*node)(nil)
	_ framework.AuditSupporter     = (*node)(nil)
	_ framework.CertificateFaulter = (*node)(nil)
	_ framework.EtcdOperator       = (*node)(nil)
	_ framework.DiskWiper          = (*node)(nil)
)

// Name implements framework.Node.
func (n *node) Name() string { return n.name }

// Address implements framework.Node.
func (n *node) Address() netip.Addr { return n.address }

// Zone implements framework.Zoner.
func (n *node) Zone() string { return n.spec.Zone }

// Components implements framework.Node.
func (n *node) Components() []framework.Component {
	return []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}
}

// unplugFor is how long a node that loses power is cut off: longer than killing its processes
// takes, and shorter than its restart.
const unplugFor = 4 * time.Second

// unplug cuts the node off for a moment.
func (n *node) unplug(ctx context.Context) error {
	if err := n.cluster.CutOff(ctx, n.party(), unplugFor); err != nil {
		return fmt.Errorf("failed to cut %s off before it loses power: %w", n.name, err)
	}
	return nil
}

// party is the node's name on the network.
func (n *node) party() string {
	switch n.role {
	case balancerRole:
		return framework.BalancerHost
	case workerRole:
		return framework.WorkersHost
	}
	return n.name
}

// host returns the balancer for its component.
func (c *Cluster) host(component framework.Component) (*node, error) {
	if component == framework.LoadBalancer && c.balancer != nil {
		return c.balancer, nil
	}
	return nil, fmt.Errorf("cluster %s does not run %s", c.Name(), component)
}

// onHost acts on the node that runs a component of the cluster.
func (c *Cluster) onHost(component framework.Component, do func(*node) error) error {
	n, err := c.host(component)
	if err != nil {
		return err
	}
	return do(n)
}

// Process implements framework.ProcessReporter.
func (c *Cluster) Process(ctx context.Context, component framework.Component) (framework.Process, error) {
	n, err := c.host(component)
	if err != nil {
		return framework.Process{}, err
	}
	return n.Process(ctx, component)
}

// Kill implements framework.Killer.
func (c *Cluster) Kill(ctx context.Context, component framework.Component, hold time.Duration) error {
	return c.onHost(component, func(n *node) error { return n.Kill(ctx, component, hold) })
}

// Stop implements framework.Stopper.
func (c *Cluster) Stop(ctx context.Context, component framework.Component, hold time.Duration) error {
	return c.onHost(component, func(n *node) error { return n.Stop(ctx, component, hold) })
}

// Start implements framework.Starter.
func (c *Cluster) Start(ctx context.Context, component framework.Component) error {
	return c.onHost(component, func(n *node) error { return n.Start(ctx, component) })
}

// Freeze implements framework.Freezer.
func (c *Cluster) Freeze(ctx context.Context, component framework.Component, ttl time.Duration) error {
	return c.onHost(component, func(n *node) error { return n.Freeze(ctx, component, ttl) })
}

// Thaw implements framework.Freezer.
func (c *Cluster) Thaw(ctx context.Context, component framework.Component) error {
	return c.onHost(component, func(n *node) error { return n.Thaw(ctx, component) })
}
