package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
)

// Close removes the agents, once they have healed everything, and leaves the cluster.
func (c *Cluster) Close(ctx context.Context) error {
	var err error
	c.once.Do(func() {
		c.stop()
		c.pings.Wait()
		err = c.each(func(n *node) error {
			defer n.Client.Close()
			if !n.put {
				return nil // an existing agent may be another run's
			}
			return takeOut(ctx, n.shell, n.Client)
		})
		c.done()
	})
	return err
}

// unused returns an error if the agent of the node serves another harness, which sends it a
// request every pingEach.
func (s shell) unused(ctx context.Context) error {
	out, err := s.run(ctx, agent.InUse(), nil)
	if err != nil {
		return err
	}
	if ago, err := strconv.Atoi(strings.TrimSpace(out)); err == nil && time.Duration(ago)*time.Second < 2*pingEach {
		return fmt.Errorf("%w: another run of holdfast uses the agent on %s, or did %d s ago (if it was killed, try again)", ErrUnsafe, s.node, ago)
	}
	return nil
}

// idle is unused, but waits as long as an agent whose harness was killed still looks used.
func (s shell) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*pingEach)
	defer cancel()
	return await.Until(ctx, time.Second, s.unused)
}

// takeOut makes the agent of a node heal everything, and removes it when nothing is left to
// heal, or when it does not answer.
func takeOut(ctx context.Context, s shell, client *agent.Client) error {
	state, err := s.run(ctx, agent.Used(), nil)
	switch state = strings.TrimSpace(state); {
	case err != nil || state == "":
		return err
	case state == "unused": // it has never run
		_, err := s.run(ctx, agent.TakeOut(), nil)
		return err
	}
	// An agent that receives requests keeps faults active.
	_ = client.HealAll(ctx) // the state shows what is left
	answered := time.Now()
	err = await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		left, err := client.Active(ctx)
		if err == nil {
			answered = time.Now()
		}
		switch {
		case err != nil && time.Since(answered) > Leash:
			return nil // it is gone, and the script heals what is active
		case err != nil:
			return err
		case len(left) > 0:
			return fmt.Errorf("a fault is active on %s (%s)", s.node, strings.Join(left, ", "))
		}
		return nil
	})
	if err == nil {
		_, err = s.run(ctx, agent.TakeOut(), nil)
	}
	if err != nil {
		return fmt.Errorf("failed to remove the agent from %s: %w", s.node, err)
	}
	return nil
}

// Detach implements clusters.Attacher.
func (Provider) Detach(ctx context.Context, c *clusters.Cluster, _ bool) error {
	i := c.Spec.Inventory
	if i == nil || !i.Reachable() {
		return nil
	}
	all, done, err := shells(i)
	if err != nil {
		return err
	}
	defer done()
	var problems []error
	for _, n := range i.Spec.Nodes {
		s := all[n.Name]
		if err := s.idle(ctx); err != nil {
			problems = append(problems, err)
			continue
		}
		client := agent.NewClient(n.Name, s.dialAgent)
		problems = append(problems, takeOut(ctx, s, client))
		client.Close()
	}
	return errors.Join(problems...)
}
