package kind

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// state asks the engine for the state of the node's container.
func (n *node) state(ctx context.Context) (docker.Container, error) {
	all, err := n.cluster.cli.Inspect(ctx, n.name)
	if err != nil {
		return docker.Container{}, fmt.Errorf("failed to query the state of %s: %w", n.name, err)
	}
	return all[0], nil
}

// PowerOff implements framework.PowerSwitch: it cuts the container's network and then kills it,
// so that peers do not receive its FIN or RST.
func (n *node) PowerOff(ctx context.Context, ttl time.Duration) error {
	return n.takeAway(ctx, "start", ttl, func(ctx context.Context) error {
		if err := n.unplug(ctx); err != nil {
			return err
		}
		_, err := n.cluster.cli.Run(ctx, "kill", n.name)
		return err
	})
}

// PowerOn implements framework.PowerSwitch.
func (n *node) PowerOn(ctx context.Context) error { return n.bringBack(ctx, "start") }

// Powered implements framework.PowerSwitch.
func (n *node) Powered(ctx context.Context) (bool, error) {
	c, err := n.state(ctx)
	return c.State.Running, err
}

// Booted implements framework.BootReporter.
func (n *node) Booted() time.Time {
	ctx, cancel := context.WithTimeout(context.Background(), stateLimit)
	defer cancel()
	c, err := n.state(ctx)
	if err != nil || !c.State.Running {
		return time.Time{}
	}
	return c.State.StartedAt
}

// stateLimit is how long the engine may take to report the state of a container.
const stateLimit = 10 * time.Second

// Pause implements framework.Pauser.
func (n *node) Pause(ctx context.Context, ttl time.Duration) error {
	return n.takeAway(ctx, "unpause", ttl, func(ctx context.Context) error {
		_, err := n.cluster.cli.Run(ctx, "pause", n.name)
		return err
	})
}

// Resume implements framework.Pauser.
func (n *node) Resume(ctx context.Context) error { return n.bringBack(ctx, "unpause") }

// Paused implements framework.Pauser.
func (n *node) Paused(ctx context.Context) (bool, error) {
	c, err := n.state(ctx)
	return c.State.Paused, err
}

// takeAway does something to the container that verb undoes, once a guard is ready.
func (n *node) takeAway(ctx context.Context, verb string, ttl time.Duration, do func(context.Context) error) error {
	if ttl <= 0 {
		return agenthttp.NothingDone("it needs a time to live above zero")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c, err := n.state(ctx)
	switch {
	case err != nil:
		return err
	case !c.State.Running:
		return agenthttp.NothingDone(n.name + " is already powered off")
	case verb == "unpause" && c.State.Paused:
		return agenthttp.NothingDone(n.name + " is already paused")
	}
	g, err := startGuard(guardOrder{Engine: n.cluster.o.Engine, Container: c.ID, Verb: verb, After: ttl})
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	if n.guards == nil {
		n.guards = guards{}
	}
	n.guards[verb].end() // of a fault that is over
	n.guards[verb] = g
	return errors.Join(do(ctx), g.count())
}

// bringBack undoes takeAway; it does nothing if that is undone already.
func (n *node) bringBack(ctx context.Context, verb string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	back, err := guardOrder{Container: n.name, Verb: verb}.carryOut(ctx, n.cluster.cli)
	if err != nil || !back {
		return fmt.Errorf("%s of %s: %w", verb, n.name, err)
	}
	n.guards[verb].end()
	delete(n.guards, verb)
	return nil
}

// endGuards stops the guards of the container.
func (n *node) endGuards() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.guards.end()
}
