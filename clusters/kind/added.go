package kind

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// A node that is added to another tool's cluster has a label: if the process that added it is
// killed, the next one that attaches or detaches finds it, and removes it. It may be in any
// state: its container may be off, and its etcd may not have been started, or may have lost its
// membership.

// addedLabel marks the container of such a node.
const addedLabel = "dev.holdfast.added"

// leftLimit is how long Detach may take to remove the nodes that another process added.
const leftLimit = 3 * time.Minute

var _ clusters.Expander = Provider{}

// Expands implements clusters.Expander.
func (Provider) Expands(ctx context.Context, c *clusters.Cluster) error {
	e, err := engine.Find(ctx)
	if err != nil {
		return err
	}
	return expands(ctx, docker.CLI{Host: e.Host}, c)
}

func expands(ctx context.Context, cli docker.CLI, c *clusters.Cluster) error {
	if len(c.Spec.Nodes) == 1 {
		return errors.New("it has one control-plane node and no load balancer, so all others would depend on that node")
	}
	all, err := machines(ctx, cli, c.Metadata.Name)
	if err != nil {
		return err
	}
	name, pinned, err := networkOf(all)
	if err != nil || pinned {
		return err
	}
	others, err := othersOn(ctx, cli, name, all)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("a new node needs a fixed address, and addresses are not pinned, because other containers are on the network %s too (%s)",
			name, strings.Join(others, ", "))
	}
	return err
}

func isAdded(c docker.Container) bool { return c.Config.Labels[addedLabel] != "" }

// marked returns the container that a node to add is modelled on, with the label if another tool
// created the cluster.
func (c *Cluster) marked(model docker.Container) docker.Container {
	if c.foreign {
		labels := map[string]string{}
		maps.Copy(labels, model.Config.Labels)
		labels[addedLabel] = "true"
		model.Config.Labels = labels
	}
	return model
}

// removeAdded removes the nodes that were added to the cluster and are still there.
func (c *Cluster) removeAdded(ctx context.Context) (err error) {
	for _, n := range c.controlPlane() {
		if n.added {
			c.o.Progress("removing " + n.name + ", which was added")
			failed := c.RemoveNode(ctx, n.name)
			if failed == nil {
				// A kubeadm that still ran there may have added another member until the container
				// was removed.
				failed = c.etcdMembers().Remove(ctx, n.peerURL())
			}
			err = errors.Join(err, failed)
		}
	}
	return err
}

// removeLeft removes the nodes that another process added to a cluster, and left there.
func removeLeft(ctx context.Context, cli docker.CLI, name string) error {
	all, err := machines(ctx, cli, name)
	if err != nil || !slices.ContainsFunc(all, isAdded) {
		return err
	}
	dir, remove, err := scratch.Dir("holdfast-kind-")
	if err != nil {
		return fmt.Errorf("failed to create the state directory of cluster %s: %w", name, err)
	}
	defer func() { _ = remove() }()
	ctx, cancel := context.WithTimeoutCause(ctx, leftLimit, fmt.Errorf("not done after %s", leftLimit))
	defer cancel()
	spec := clusters.Default()
	spec.Metadata.Name = name
	c := newCluster(spec, Options{Engine: cli.Host, Dir: dir})
	c.foreign = true
	if err = c.findAgain(ctx, all); err == nil {
		err = c.removeAdded(ctx)
	}
	for _, n := range c.containers() {
		n.Client.Close()
	}
	if err != nil {
		return fmt.Errorf("failed to remove the nodes that were added to cluster %s: %w; try again", name, err)
	}
	return nil
}

// findAgain finds the containers of a cluster, on the network that they are on.
func (c *Cluster) findAgain(ctx context.Context, all []docker.Container) error {
	name, _, err := networkOf(all)
	if err != nil {
		return err
	}
	network, err := inspectNetwork(ctx, c.cli, name)
	if err != nil {
		return err
	}
	if c.network, err = network.network(); err != nil {
		return err
	}
	return c.find(ctx)
}
