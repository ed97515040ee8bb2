package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/readiness"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/framework"
)

// readyLimit is how long a cluster may take from power-on until it is ready. It takes seconds;
// the limit is for very slow machines.
const readyLimit = 3 * time.Minute

// Ready returns when every API server is ready, directly and through the
// balancer, the simulated nodes exist and each elected component has a holder
// (where leader election is on).
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	ctx, crashed := context.WithCancelCause(ctx)
	defer crashed(nil)
	var crash error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if crash = c.awaitCrash(ctx); crash != nil {
			crashed(crash)
		}
	}()
	err := c.ready(ctx)
	crashed(nil)
	if <-watched; err != nil && crash != nil {
		return crash
	}
	return err
}

func (c *Cluster) ready(ctx context.Context) error {
	began := time.Now()
	since := func() string { return time.Since(began).Round(10 * time.Millisecond).String() }

	g, gctx := errgroup.WithContext(ctx)
	for _, e := range c.Entrances() {
		g.Go(func() error {
			if _, err := await.API(gctx, e, "/readyz", await.Anything); err != nil {
				return fmt.Errorf("%s %s is not ready: %w; see %s", e.Kind, e.Name, err, c.o.LogDir)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.o.Progress("API servers ready after " + since())
	if err := c.startWorkers(ctx); err != nil {
		return err
	}
	for _, elected := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
		if !c.elects(elected) {
			continue
		}
		if _, err := await.API(ctx, c.Entrances()[0], await.LeasePath(elected), await.Holder); err != nil {
			return fmt.Errorf("no instance of %s is active: %w", elected, err)
		}
	}
	if err := c.awaitSupervised(ctx); err != nil {
		return err
	}
	c.o.Progress("leases held after " + since())
	return nil
}

// elects reports whether leader election is on for a component on every node.
func (c *Cluster) elects(component framework.Component) bool {
	return !slices.ContainsFunc(c.controlPlane(), func(n *node) bool { return !n.spec.Elects(component) })
}

// awaitSupervised returns when each component that a supervisor elects runs somewhere.
func (c *Cluster) awaitSupervised(ctx context.Context) error {
	for name := range c.Locks() {
		err := await.Until(ctx, 25*time.Millisecond, func(ctx context.Context) error {
			for _, n := range c.nodes {
				if p, err := n.Process(ctx, name); err == nil && p.PID != 0 {
					return nil
				}
			}
			return fmt.Errorf("no %s runs: no supervisor has taken its lock; see podmaster.log in %s/logs", name, c.o.Dir)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startWorkers starts kwok and makes the nodes that it simulates, there and on
// control-plane nodes.
func (c *Cluster) startWorkers(ctx context.Context) error {
	nodes, err := component.WorkerNodes(c.spec.Spec.Workers)
	if err != nil {
		return err
	}
	if c.spec.Spec.RegisterNodes {
		for _, n := range c.controlPlane() {
			object, err := component.ControlPlaneNode(n.Name())
			if err != nil {
				return err
			}
			nodes = append(nodes, object)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	if c.workers != nil {
		if err := c.workers.powerOn(ctx); err != nil {
			return err
		}
	}
	client, err := await.Client(c.Entrances()[0].Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for _, n := range nodes {
		err := await.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			_, err := await.Request(ctx, client, http.MethodPost, c.Entrances()[0].Config.Host+"/api/v1/nodes", string(n))
			if status, ok := errors.AsType[await.StatusError](err); ok && status.Code == http.StatusConflict {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("failed to make the simulated nodes: %w", err)
		}
	}
	ready := func(body []byte) error { return readiness.Listed(body, nil) }
	if _, err := await.API(ctx, c.Entrances()[0], "/api/v1/nodes", ready); err != nil {
		return fmt.Errorf("failed to wait for the simulated nodes: %w; see %s", err, filepath.Join(c.o.LogDir, framework.WorkersHost))
	}
	return nil
}
