package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/readiness"
	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// forgetLimit is how long the API may take to delete a node.
	forgetLimit = 20 * time.Second
	// discardLimit is how long the engine may take to remove a container.
	discardLimit = 30 * time.Second
)

// nodeNumber follows kind's numbering: the first control-plane node has no number.
func nodeNumber(name string) int {
	_, digits, _ := strings.Cut(name, "-"+controlPlaneRole)
	if n, err := strconv.Atoi(digits); err == nil {
		return n
	}
	return 1
}

// nodeSpec returns the spec of the node with a number; if the cluster's description has fewer
// nodes, it is one without overrides.
func (c *Cluster) nodeSpec(number int) clusters.Node {
	spec := *c.spec
	if number > len(spec.Spec.Nodes) {
		spec.SetNodes(number)
	}
	n := spec.Node(number - 1)
	if c.upgraded != "" {
		n.KubernetesVersion = c.upgraded // kubeadm joins nodes only in this version
	}
	return n
}

func (n *node) peerURL() string {
	return "https://" + net.JoinHostPort(n.address.String(), etcdPeerPort)
}

// etcdMembers returns the etcd members of all nodes.
func (c *Cluster) etcdMembers() scaling.Members {
	var all scaling.Members
	for _, n := range c.controlPlane() {
		all = append(all, scaling.Member{Node: n.name, PeerURL: n.peerURL(), Config: func(ctx context.Context) (clientv3.Config, error) {
			if !n.works(ctx) {
				return clientv3.Config{}, errors.New("its container is not running")
			}
			return c.etcdAt(n), nil
		}})
	}
	return all
}

// works reports whether the node's container runs and is not paused.
func (n *node) works(ctx context.Context) bool {
	container, err := n.state(ctx)
	return err == nil && container.State.Running && !container.State.Paused
}

// AddNode implements framework.Scaler, with kubeadm.
func (c *Cluster) AddNode(ctx context.Context) (framework.Node, error) {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	var back scaling.Undo
	n, err := c.addNode(ctx, &back)
	if err != nil {
		return nil, fmt.Errorf("failed to add a node to cluster %s: %w", c.Name(), errors.Join(explain(err), back.All(ctx)))
	}
	return n, nil
}

// addNode adds to back how to undo each step.
func (c *Cluster) addNode(ctx context.Context, back *scaling.Undo) (*node, error) {
	members := c.etcdMembers()
	err := members.QuorumWith(ctx)
	if err == nil {
		err = members.AreNodes(ctx)
	}
	if err != nil {
		return nil, framework.Untouched{Err: err}
	}
	address, err := c.network.added(c.made + 1)
	if err != nil {
		return nil, err
	}
	c.made++
	n := c.newNode(c.Name()+"-"+controlPlaneRole+strconv.Itoa(c.made), address, controlPlaneRole)
	n.spec, n.added = c.nodeSpec(c.made), true
	if c.balancer != nil {
		n.Client.Balancer = c.balancer.name
	}
	entrance := c.entrance(n)
	back.Add(func(ctx context.Context) error {
		if err := members.Remove(ctx, n.peerURL()); err != nil {
			c.include(n, entrance)
			return scaling.Stays(n.name, err)
		}
		// A kubeadm that still runs there may add another member until the container is removed.
		return errors.Join(n.discard(ctx), members.Remove(ctx, n.peerURL()), c.forget(ctx, n.name))
	})
	err = framework.DoStep(ctx, n.name, record.StepJoin, func(ctx context.Context) (string, error) {
		return "kubeadm join succeeded", c.join(ctx, n)
	})
	if err != nil {
		return nil, err
	}
	if err := n.startAgent(ctx); err != nil {
		return nil, fmt.Errorf("failed to start the agent on %s: %w", n.name, err)
	}
	err = framework.DoStep(ctx, n.name, record.StepReady, func(ctx context.Context) (string, error) {
		return "/readyz answers 200, its etcd member answers, its Node is ready", c.awaitNode(ctx, n, entrance)
	})
	if err != nil {
		return nil, err
	}
	old := c.controlPlane()
	all := append(slices.Clip(old), n)
	known := c.Network.All()
	parties, err := c.findParties(ctx, all)
	if err != nil {
		return nil, err
	}
	back.Add(func(context.Context) error { c.Network.Replace(known); return nil })
	c.Network.Replace(parties)
	if err := c.Network.Meet(ctx); err != nil {
		return nil, err
	}
	back.Add(func(ctx context.Context) error { return c.balance(ctx, old, nil) })
	if err := c.balanceStep(ctx, n, record.StepBalance, all, n); err != nil {
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

// awaitNode returns when the API server of a joined node is ready, its etcd answers, and its
// kubelet and pod network work.
func (c *Cluster) awaitNode(ctx context.Context, n *node, entrance framework.Entrance) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	if _, err := await.API(ctx, entrance, "/readyz", await.Anything); err != nil {
		return fmt.Errorf("the API server of %s is not ready: %w", n.name, err)
	}
	var err error
	if n.etcd, err = c.etcdVersion(ctx, n); err != nil {
		return fmt.Errorf("failed to ask etcd on %s for its version: %w", n.name, err)
	}
	_, err = await.API(ctx, c.Entrances()[0], "/api/v1/nodes", func(body []byte) error { return readiness.Listed(body, []string{n.name}) })
	return err
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
		c.Network.Replace(slices.DeleteFunc(slices.Clone(c.Network.All()), func(p agent.Party) bool { return p.Name == name }))
		return nil
	}, func(ctx context.Context) (string, error) {
		return "its container and its Node object are gone", errors.Join(n.discard(ctx), c.forget(ctx, name))
	})
}

// removable returns the node of a name if the cluster can continue without it.
func (c *Cluster) removable(ctx context.Context, name string) (*node, error) {
	nodes := c.controlPlane()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.name == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("no such node; the nodes are %s", strings.Join(framework.NodeNames(nodes), ", "))
	case len(nodes) == 1:
		return nil, errors.New("it is the last one")
	case c.balancer == nil && nodeNumber(name) == 1:
		return nil, errors.New("without a balancer all others reach the API through this node alone: make the cluster with three nodes")
	}
	return nodes[i], c.etcdMembers().QuorumWithout(ctx, name)
}

// takeOut does all of a removal except the machine.
func (c *Cluster) takeOut(ctx context.Context, n *node, back *scaling.Undo) error {
	old := c.controlPlane()
	back.Add(func(ctx context.Context) error { return c.balance(ctx, old, nil) })
	left := slices.DeleteFunc(slices.Clone(old), func(other *node) bool { return other == n })
	if err := c.balanceStep(ctx, n, record.StepUnbalance, left, nil); err != nil {
		return err
	}
	var up scaling.Node
	if n.works(ctx) {
		up = n
		back.Add(func(ctx context.Context) error { return scaling.Undrain(ctx, n) })
		if err := scaling.Drain(ctx, n.name, n); err != nil {
			return err
		}
	}
	return scaling.TakeOut(ctx, c.etcdMembers(), n.name, n.peerURL(), up)
}

// discard removes the node's container, whatever its state, and its data. Its logs stay.
func (n *node) discard(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.guards.end() // one would restart the container
	n.Client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	logs := filepath.Join(n.cluster.o.LogDir, n.name)
	if err := os.MkdirAll(logs, 0o755); err == nil {
		_, _ = n.docker(ctx, "cp", n.name+":/var/log/.", logs) // the container may not exist yet
	}
	if _, err := n.docker(ctx, "rm", "--force", "--volumes", n.name); err != nil && !docker.Says(err, "no such container") {
		return fmt.Errorf("failed to remove the container of %s: %w", n.name, err)
	}
	return nil
}

// noGrace makes the API delete immediately, since no kubelet is left to end the pod.
const noGrace = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`

// forget deletes the Node object of a removed node, and its system pods: kubeadm reads the
// addresses of etcd's members from their pods.
func (c *Cluster) forget(ctx context.Context, name string) error {
	e := c.Entrances()[0]
	client, err := await.Client(e.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := agenthttp.Within(context.WithoutCancel(ctx), forgetLimit)
	defer cancel()
	for _, path := range []string{"/api/v1/nodes/" + name,
		"/api/v1/namespaces/kube-system/pods?fieldSelector=" + url.QueryEscape("spec.nodeName="+name)} {
		err := await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
			defer cancel()
			_, err := await.Request(ctx, client, http.MethodDelete, e.Config.Host+path, noGrace)
			if status, ok := errors.AsType[await.StatusError](err); ok && status.Code == http.StatusNotFound {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("failed to delete the API objects of node %s: %w", name, err)
		}
	}
	return nil
}
