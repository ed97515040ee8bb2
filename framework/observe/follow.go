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
	part := &Observers{cfg: o.cfg, only: node, w: o.w, seen: o.seen}
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

// nodes returns the observed nodes.
func (o *Observers) nodes() []framework.Node {
	if o.only != nil {
		return []framework.Node{o.only}
	}
	return o.cfg.Cluster.Nodes()
}

// entrances returns the observed entrances.
func (o *Observers) entrances() []framework.Entrance {
	all := o.cfg.Cluster.Entrances()
	if o.only == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e framework.Entrance) bool { return e.Node != o.only.Name() })
}
