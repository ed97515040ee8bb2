package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// Close removes the agents, once they have healed everything, and leaves the cluster.
func (c *Cluster) Close(ctx context.Context) error {
	var err error
	c.once.Do(func() {
		err = c.each(func(n *node) error { return n.restorePower(ctx) })
		c.stop()
		c.pings.Wait()
		err = errors.Join(err, c.each(func(n *node) error {
			defer n.Client.Close()
			if !n.put {
				return nil // an existing agent may be another run's
			}
			return takeOut(ctx, n.shell, n.Client)
		}))
		c.done()
	})
	return err
}

// unused returns an error if the agent of the node serves another harness, which sends it a
// request every pingEach.
func (s shell) unused(ctx context.Context) error {
	out, err := s.run(ctx, agent.InUse())
	if err != nil {
		return err
	}
	return s.used(out)
}

// used is unused, from what the script has printed.
func (s shell) used(out string) error {
	text, run, _ := strings.Cut(lastLine(out), " ")
	if ago, err := strconv.Atoi(text); err == nil && time.Duration(ago)*time.Second < agent.UsedFor {
		return fmt.Errorf("%w: another run of holdfast used the agent on %s %d s ago (%s; if it was killed, try again)", clusters.ErrUnsafe, s.node, ago, cmp.Or(run, "unnamed"))
	}
	return nil
}

// unlessUsed is the script that exits if an agent is used, after printing what used needs.
func unlessUsed() string {
	return fmt.Sprintf("used=$(%s)\nago=${used%%%% *}\n[ \"${ago:-%[2]d}\" -ge %[2]d ] || { echo \"$used\"; exit; }\n", agent.InUse(), agent.UsedFor/time.Second)
}

// unused returns an error for each node whose agent serves another harness.
func (a *access) unused(ctx context.Context) error {
	if !a.Reachable() {
		return nil
	}
	all, done, err := shells(a.Inventory)
	if err != nil {
		return err
	}
	defer done()
	return framework.Each(slices.Collect(maps.Values(all)), func(s shell) error { return s.unused(ctx) })
}

// idle is unused, but waits as long as an agent whose harness was killed still looks used.
func (s shell) idle(ctx context.Context) error { return awaitUnused(ctx, s.unused) }

// awaitUnused tries until an agent is unused, and begins its last try after three pings of a harness. How
// long a login takes is up to ssh.
func awaitUnused(ctx context.Context, unused func(context.Context) error) error {
	lastTry := time.Now().Add(3 * pingEach)
	return await.Until(ctx, time.Second, func(ctx context.Context) error {
		last := time.Now().After(lastTry)
		err := unused(ctx)
		if err != nil && last {
			return await.Fatal(err)
		}
		return err
	})
}

// takeOut makes the agent of a node heal everything, and removes it when nothing is left to
// heal, or when it does not answer.
func takeOut(ctx context.Context, s shell, client *agent.Client) error {
	state, err := s.run(ctx, agent.Used())
	switch state = lastLine(state); {
	case state == "unused": // it has never run
		_, err := s.runFor(ctx, takeOutLimit, agent.TakeOut(), nil)
		return err
	case state != "used":
		return err
	}
	_, err = heal(ctx, closeLimit, s, client)
	if err == nil {
		_, err = s.runFor(ctx, takeOutLimit, agent.TakeOut(), nil)
	}
	if err != nil {
		return fmt.Errorf("failed to remove the agent from %s: %w", s.node, err)
	}
	return nil
}

// heal makes the agent of a node heal everything, and returns when nothing is left to heal, or when the
// agent has not answered for Leash: it is gone. What is left after limit is in the error. It leaves an
// agent alone that another run uses.
func heal(ctx context.Context, limit time.Duration, s shell, client *agent.Client) (gone bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
	defer cancel()
	// An agent that receives requests keeps faults active.
	err = client.HealAll(ctx) // the state shows what is left
	if _, other := errors.AsType[agenthttp.OtherRun](err); other {
		return false, fmt.Errorf("%w: %w", clusters.ErrUnsafe, err)
	}
	answered := time.Now()
	err = await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		left, err := client.Active(ctx)
		if err == nil {
			answered = time.Now()
		}
		switch {
		case err != nil && time.Since(answered) > Leash:
			gone = true // the script heals what is active
			return nil
		case err != nil:
			return err
		case len(left) > 0:
			return fmt.Errorf("a fault is active on %s (%s)", s.node, strings.Join(left, ", "))
		}
		return nil
	})
	return gone, err
}

// healOld has the agents of earlier runs heal everything. The nodes are looked at only after that: a
// component that a fault holds down does not run, and an agent that is put on its node then would not know
// it. An agent of another version may not know the fault.
func (c *Cluster) healOld(ctx context.Context) (err error) {
	all := slices.Collect(maps.Values(c.shells))
	var reached []shell
	for i, problem := range framework.Map(all, func(s shell) error { return s.unused(ctx) }) {
		if problem == nil {
			reached = append(reached, all[i])
		} else if errors.Is(problem, clusters.ErrUnsafe) {
			err = errors.Join(err, problem)
		} // whether a run may begin without the node is decided when it is looked at
	}
	if err != nil {
		return err
	}
	return framework.Each(reached, func(s shell) error {
		state, err := s.run(ctx, agent.Used())
		if err != nil || lastLine(state) != "used" {
			return nil
		}
		client := agent.NewClient(s.node, s.dialAgent)
		defer client.Close()
		gone, err := heal(ctx, agentUp+Leash, s, client)
		if gone {
			_, err = s.runFor(ctx, takeOutLimit, agent.TakeOut(), nil)
		}
		if err != nil {
			return fmt.Errorf("failed to heal what another run left on %s: %w", s.node, err)
		}
		return nil
	})
}

// Detach implements clusters.Attacher. It also deletes what a run created in the cluster. It goes
// as far as it can: an agent is removed also if the API does not answer, or another node does not.
func (Provider) Detach(ctx context.Context, spec *clusters.Cluster, _ bool) error {
	i := spec.Spec.Inventory
	if i == nil {
		return nil
	}
	a, problem := reach(i)
	clean := func(do func(context.Context) error) {
		if a == nil {
			return
		}
		cleaning, cancel := context.WithTimeout(ctx, cleanUpLimit)
		defer cancel()
		problem = errors.Join(problem, do(cleaning))
	}
	namespaces := func(ctx context.Context) error { return workload.CleanUp(ctx, a.entrances) }
	if !i.Reachable() {
		clean(namespaces)
		return problem
	}
	c := &Cluster{Observed: &Observed{access: a, spec: spec}}
	var err error
	if c.shells, c.done, err = shells(i); err != nil {
		return errors.Join(problem, err)
	}
	defer c.done()
	var mu sync.Mutex
	for _, n := range i.Spec.Nodes {
		one := &node{plain: &plain{spec: clusters.Node{Name: n.Name}, address: n.Address}, cluster: c, shell: c.shells[n.Name]}
		if p := powerOf(n); p != nil {
			one.outlet = &outlet{power: p}
		}
		one.Client = agent.NewClient(n.Name, one.shell.dialAgent)
		defer one.Client.Close()
		c.reached = append(c.reached, one)
	}
	var answers []*node
	err = c.each(func(n *node) error {
		err := n.shell.idle(ctx)
		if err != nil {
			err = errors.Join(err, n.withoutPower(ctx))
		} else {
			_ = n.Client.HealAll(ctx) // takeOut checks what is left
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, n)
		}
		return err
	})
	if errors.Is(err, clusters.ErrUnsafe) { // another run uses them
		return errors.Join(problem, err)
	}
	problem, c.reached = errors.Join(problem, err), answers
	clean(namespaces)
	if with := c.withMembers(ctx); len(with) > 0 {
		clean(func(ctx context.Context) error { return workload.CleanUpEtcd(ctx, c, with) })
	}
	return errors.Join(problem, c.each(func(n *node) error { return takeOut(ctx, n.shell, n.Client) }))
}

// cleanUpLimit is how long deleting what a run created may take, through the API and through etcd.
const cleanUpLimit = 30 * time.Second

// withMembers returns the nodes whose agents reach an etcd member.
func (c *Cluster) withMembers(ctx context.Context) []string {
	all := framework.Map(c.reached, func(n *node) string {
		ctx, cancel := context.WithTimeout(ctx, etcdDialLimit)
		defer cancel()
		conn, err := n.DialEtcd(ctx)
		if err != nil {
			return ""
		}
		_ = conn.Close()
		return n.Name()
	})
	all = slices.DeleteFunc(all, func(name string) bool { return name == "" })
	slices.Sort(all)
	return all
}
