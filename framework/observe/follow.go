package observe

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/framework"
)

// members keeps what to stop when a node leaves.
type members struct {
	mu    sync.Mutex
	loops map[string][]context.CancelFunc // by node; guarded by mu
	gone  map[string]bool                 // guarded by mu
	parts map[string]*Observers           // by node that joined; guarded by mu
}

// Join observes a control-plane node that has joined the cluster, and the entrance through its
// API server, like all others, until Leave, Stop or the end of ctx.
func (o *Observers) Join(ctx context.Context, node framework.Node) error {
	cfg := o.cfg
	cfg.Cluster = partOf(o.cfg.Cluster, node)
	part := &Observers{cfg: cfg, w: o.w, seen: o.seen}
	if err := part.start(ctx, part.ofNodes()); err != nil {
		return fmt.Errorf("failed to observe %s: %w", node.Name(), err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.parts == nil {
		o.parts = map[string]*Observers{}
	}
	o.parts[node.Name()] = part
	return nil
}

// Leave stops everything that observes a node or uses its API server: it is about to be removed,
// and its behavior from now on says nothing about the cluster.
func (o *Observers) Leave(node string) {
	o.mu.Lock()
	if o.gone == nil {
		o.gone = map[string]bool{}
	}
	o.gone[node] = true
	for _, end := range o.loops[node] {
		end()
	}
	part := o.parts[node]
	delete(o.parts, node)
	o.mu.Unlock()
	if part != nil {
		part.Stop()
	}
}

// while stops a loop when its node leaves; the balancer never does.
func (o *Observers) while(node string, loop func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o.mu.Lock()
		gone := o.gone[node]
		if o.loops == nil {
			o.loops = map[string][]context.CancelFunc{}
		}
		o.loops[node] = append(o.loops[node], cancel)
		o.mu.Unlock()
		if !gone {
			loop(ctx)
		}
	}
}

// stopParts stops the observers of the nodes that have joined.
func (o *Observers) stopParts() {
	o.mu.Lock()
	parts := o.parts
	o.parts = nil
	o.mu.Unlock()
	for _, part := range parts {
		part.Stop()
	}
}

// part is a view of a cluster that shows only one node.
type part struct {
	framework.Cluster
	node framework.Node
}

func (p part) Nodes() []framework.Node { return []framework.Node{p.node} }

func (p part) whole() framework.Cluster { return p.Cluster }

func (p part) Entrances() []framework.Entrance {
	return slices.DeleteFunc(slices.Clone(p.Cluster.Entrances()), func(e framework.Entrance) bool { return e.Node != p.node.Name() })
}

// etcdPart is a part with access to etcd.
type etcdPart struct {
	part
	framework.EtcdAccess
}

func partOf(c framework.Cluster, node framework.Node) framework.Cluster {
	p := part{c, node}
	if access, ok := c.(framework.EtcdAccess); ok {
		return etcdPart{p, access}
	}
	return p
}

// wholeOf returns the cluster of which another one may be a view.
func wholeOf(c framework.Cluster) framework.Cluster {
	if p, ok := c.(interface{ whole() framework.Cluster }); ok {
		return p.whole()
	}
	return c
}
