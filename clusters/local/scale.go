package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var (
	_ framework.Scaler       = (*Cluster)(nil)
	_ framework.NodeReplacer = (*Cluster)(nil)
)

var errEnded = errors.New("it was deleted")

// AddNode implements framework.Scaler.
func (c *Cluster) AddNode(ctx context.Context) (framework.Node, error) {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	var back scaling.Undo
	n, err := c.addNode(ctx, &back, c.nextNode)
	if err != nil {
		return nil, fmt.Errorf("failed to add a node to cluster %s: %w", c.Name(), errors.Join(err, back.All(ctx)))
	}
	return n.offered(), nil
}

// ReplaceNode implements framework.NodeReplacer.
func (c *Cluster) ReplaceNode(ctx context.Context, name string) (framework.Node, error) {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	var back scaling.Undo
	n, err := c.addNode(ctx, &back, func() (clusters.Node, netip.Prefix, error) { return c.removedNode(name) })
	if err != nil {
		return nil, fmt.Errorf("failed to replace node %s of cluster %s: %w", name, c.Name(), errors.Join(err, back.All(ctx)))
	}
	delete(c.removed, name)
	return n.offered(), nil
}

// removedNode returns the spec of a removed node.
func (c *Cluster) removedNode(name string) (clusters.Node, netip.Prefix, error) {
	n := c.removed[name]
	if n == nil {
		return clusters.Node{}, netip.Prefix{}, framework.Untouched{Err: fmt.Errorf("no node of that name was removed; these were: %v", slices.Sorted(maps.Keys(c.removed)))}
	}
	return n.spec, n.machine.addr, nil
}

// nextNode returns the spec of the next node: one without overrides, with a name and an address
// that were never used.
func (c *Cluster) nextNode() (clusters.Node, netip.Prefix, error) {
	spec := *c.spec
	for {
		addr := nodeAddress(c.made)
		if nodeBase+c.made >= workersHost {
			return clusters.Node{}, addr, errors.New("the network has no unused address left for a node")
		}
		spec.SetNodes(c.made + 1)
		next := spec.Node(c.made)
		c.made++
		if !slices.ContainsFunc(c.spec.Nodes(), func(n clusters.Node) bool { return n.Name == next.Name }) {
			return next, addr, nil
		}
	}
}

// addable returns an error if the cluster cannot gain a node now.
func (c *Cluster) addable(ctx context.Context, members scaling.Members) error {
	if c.ended {
		return errEnded
	}
	if err := c.balances(); err != nil {
		return err
	}
	if err := members.QuorumWith(ctx); err != nil {
		return err
	}
	return members.AreNodes(ctx)
}

// addNode adds to back how to undo each step.
func (c *Cluster) addNode(ctx context.Context, back *scaling.Undo, which func() (clusters.Node, netip.Prefix, error)) (*node, error) {
	members := c.etcdMembers()
	if err := c.addable(ctx, members); err != nil {
		return nil, framework.Untouched{Err: err}
	}
	spec, addr, err := which()
	if err != nil {
		return nil, err
	}
	spec.KubernetesVersion, spec.EtcdVersion = c.oldest(framework.APIServer), c.oldest(framework.Etcd)
	self := component.Member{Name: spec.Name, Address: addr.Addr()}
	n, err := c.makeNode(spec, addr, append(slices.Clip(c.members), self), true)
	if err != nil {
		return nil, err
	}
	entrance, err := c.entranceOf(n)
	if err != nil {
		return nil, errors.Join(err, c.discard(n))
	}
	back.Add(func(ctx context.Context) error {
		if err := members.Remove(ctx, n.peerURL()); err != nil {
			c.include(n, entrance)
			return scaling.Stays(n.Name(), err)
		}
		return errors.Join(c.discard(n), c.forget(self.Name))
	})
	if err := scaling.AddLearner(ctx, members, n.Name(), n.peerURL()); err != nil {
		return nil, err
	}
	if err := c.know(self); err != nil {
		return nil, err
	}
	err = framework.DoStep(ctx, n.Name(), record.StepStart, func(ctx context.Context) (string, error) {
		return "the node agent answers", n.machine.powerOn(ctx)
	})
	if err != nil {
		return nil, err
	}
	if err := scaling.Promote(ctx, members, n.Name(), n.peerURL()); err != nil {
		return nil, err
	}
	if err := c.announce(ctx, n); err != nil {
		return nil, fmt.Errorf("etcd on %s does not serve clients: %w", n.Name(), err)
	}
	err = framework.DoStep(ctx, n.Name(), record.StepReady, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
		defer cancel()
		if _, err := await.API(ctx, entrance, "/readyz", await.Anything); err != nil {
			return "", fmt.Errorf("the API server is not ready: %w; see %s", err, n.machine.logs)
		}
		return "/readyz answers 200", nil
	})
	if err != nil {
		return nil, err
	}
	old := c.controlPlane()
	all := append(slices.Clip(old), n)
	back.Add(func(ctx context.Context) error { return c.balance(ctx, old) })
	if err := c.balanceStep(ctx, n, record.StepBalance, all); err != nil {
		return nil, err
	}
	c.include(n, entrance)
	return n, nil
}

// include makes a node one of the cluster's.
func (c *Cluster) include(n *node, entrance framework.Entrance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.entrances = append(slices.Clip(c.nodes), n), append(slices.Clip(c.entrances), entrance)
}

// RemoveNode implements framework.Scaler.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	var n *node
	return scaling.Remove(ctx, c.Name(), name, func(ctx context.Context, back *scaling.Undo) (err error) {
		if n, err = c.removable(ctx, name); err != nil {
			return framework.Untouched{Err: err}
		}
		if err := c.takeOut(ctx, n, back); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.nodes = slices.DeleteFunc(slices.Clone(c.nodes), func(other *node) bool { return other == n })
		c.entrances = slices.DeleteFunc(slices.Clone(c.entrances), func(e framework.Entrance) bool { return e.Node == name })
		c.removed[name] = n
		return nil
	}, func(context.Context) (string, error) {
		return "its first process has exited", errors.Join(c.discard(n), c.forget(name))
	})
}

// removable returns the node of a name if the cluster can continue without it.
func (c *Cluster) removable(ctx context.Context, name string) (*node, error) {
	nodes := c.controlPlane()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Name() == name })
	switch {
	case c.ended:
		return nil, errEnded
	case i < 0:
		return nil, fmt.Errorf("no such node; the nodes are %s", strings.Join(framework.NodeNames(nodes), ", "))
	case len(nodes) == 1:
		return nil, errors.New("it is the last one")
	case c.workers != nil && c.Entrances()[0].Node == name:
		return nil, errors.New("without a balancer the simulated workers reach the API through this node alone")
	}
	if err := c.balances(); err != nil {
		return nil, err
	}
	return nodes[i], c.etcdMembers().QuorumWithout(ctx, name)
}

// takeOut does all of a removal except the machine.
func (c *Cluster) takeOut(ctx context.Context, n *node, back *scaling.Undo) error {
	old := c.controlPlane()
	back.Add(func(ctx context.Context) error { return c.balance(ctx, old) })
	left := slices.DeleteFunc(slices.Clone(old), func(other *node) bool { return other == n })
	if err := c.balanceStep(ctx, n, record.StepUnbalance, left); err != nil {
		return err
	}
	var up scaling.Node
	if n.machine.powered() {
		up = n
		back.Add(n.undrain)
		if err := scaling.Drain(ctx, n.Name(), n); err != nil {
			return err
		}
	}
	return scaling.TakeOut(ctx, c.etcdMembers(), n.Name(), n.peerURL(), up)
}

// undrain starts them again.
func (n *node) undrain(ctx context.Context) error {
	if !n.machine.powered() {
		return nil
	}
	return scaling.Undrain(ctx, n)
}

// discard stops a node's machine and deletes its files. Logs stay.
func (c *Cluster) discard(n *node) error {
	n.spoilt.forget()
	m := n.machine
	m.close()
	var errs []error
	if m.disk != nil {
		errs = append(errs, m.disk.Stop())
		c.mu.Lock()
		c.disks = slices.DeleteFunc(slices.Clone(c.disks), func(p *disk.Process) bool { return p == m.disk })
		c.mu.Unlock()
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir), os.RemoveAll(m.run))...)
}

// know adds a node's name on all machines.
func (c *Cluster) know(m component.Member) error {
	c.mu.Lock()
	c.members = append(slices.Clip(c.members), m)
	c.mu.Unlock()
	if c.names != nil {
		c.names.add(m.Name, m.Address)
	}
	return c.renewHosts()
}

// forget undoes know.
func (c *Cluster) forget(name string) error {
	c.mu.Lock()
	c.members = slices.DeleteFunc(slices.Clone(c.members), func(m component.Member) bool { return m.Name == name })
	c.mu.Unlock()
	if c.names != nil {
		c.names.remove(name)
	}
	return c.renewHosts()
}

// renewHosts rewrites the hosts files of all machines, if they contain more than the machine
// itself.
func (c *Cluster) renewHosts() error {
	if c.names != nil {
		return nil
	}
	for _, m := range c.machines() {
		if _, err := c.hostsFile(m.name, m.addr.Addr(), m.run); err != nil {
			return fmt.Errorf("failed to write the hosts file of %s: %w", m.name, err)
		}
	}
	return nil
}
