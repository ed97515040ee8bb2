package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// cut drops every packet on some links of a node.
type cut struct {
	cluster framework.Cluster
	target  Target
	fault   string
	network framework.NetworkFaulter
	links   []framework.Link
	ttl     time.Duration
	// components of the node send or take part in the traffic that is cut.
	components []framework.Component
	// power and reporter tell whether the node is alive; one may be nil.
	power    framework.PowerSwitch
	reporter framework.ProcessReporter
}

func newCut(f Fault, c framework.Cluster, n framework.Node, t Target, p Params) (*cut, error) {
	what := "fault " + f.Name()
	network, err := ability[framework.NetworkFaulter](c, "cluster "+c.Name(), what)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(network.Parties(), n.Name()) {
		return nil, fmt.Errorf("%s: node %s is not on the provider's network, whose parties are %s", what, n.Name(), strings.Join(network.Parties(), ", "))
	}
	x := &cut{cluster: c, target: t, fault: f.Name(), network: network, ttl: p.TTL}
	x.power, _ = n.(framework.PowerSwitch)
	x.reporter, _ = n.(framework.ProcessReporter)
	// Without either, a node that is off would pass for isolated: what its
	// peers send to it is dropped and counted all the same.
	if x.power == nil && x.reporter == nil {
		return nil, &MissingAbility{Ability: "PowerSwitch or ProcessReporter", Of: "node " + n.Name(), For: what}
	}
	return x, nil
}

func (x *cut) inject(ctx context.Context) (Injection, error) {
	if dead, err := x.dead(ctx); err != nil {
		return nil, fmt.Errorf("%s of %s: asking whether it is alive before the fault: %w", x.fault, x.target.String(), err)
	} else if dead != "" {
		return notInjected(x.target, "%s, so that cutting it off changes nothing", dead), nil
	}
	var handle string
	ask := func(ctx context.Context) (err error) {
		handle, err = x.network.Impair(ctx, x.links, framework.Impairment{Cut: true}, x.ttl)
		return err
	}
	restore := func(ctx context.Context) error {
		if handle == "" {
			return nil // Impair refused, so there is nothing to restore
		}
		return x.network.Restore(ctx, handle)
	}
	i, err := attempt{
		target: x.target,
		what:   x.fault + " of " + x.target.String(),
		ask:    ask,
		effect: func(ctx context.Context) (bool, string) { return x.drops(ctx, handle) },
		undo:   restore,
		healed: func(ctx context.Context) (bool, string) { return x.passes(ctx, handle) },
	}.inject(ctx)
	if err != nil {
		return nil, err
	}
	// A node that died in the meantime was not cut off but dead.
	if !i.proof.Proven {
		return i, nil
	}
	if dead, err := x.dead(ctx); err != nil {
		i.proof.Proven, i.proof.What = false, fmt.Sprintf("%s, but whether the node is alive cannot be told: %v", i.proof.What, err)
	} else if dead != "" {
		i.proof.Proven, i.proof.What = false, fmt.Sprintf("%s, but %s", i.proof.What, dead)
	}
	return i, nil
}

// dead says in words that the target takes no part in any traffic; empty means
// that it is alive.
func (x *cut) dead(ctx context.Context) (string, error) {
	if x.power != nil {
		on, err := x.power.Powered(ctx)
		if err != nil {
			return "", err
		}
		if !on {
			return fmt.Sprintf("node %s is powered off", x.target.Node), nil
		}
	}
	if x.reporter == nil {
		return "", nil
	}
	for _, c := range x.components {
		now, err := x.reporter.Process(ctx, c)
		if err != nil {
			return "", err
		}
		if !ended(now) {
			return "", nil
		}
	}
	return fmt.Sprintf("%s runs no process", x.target.String()), nil
}

// drops looks whether the impairment has dropped packets.
func (x *cut) drops(ctx context.Context, handle string) (bool, string) {
	n, err := x.network.ImpairmentCounters(ctx, handle)
	if err != nil {
		return false, fmt.Sprintf("the counters of the cut cannot be read: %v", err)
	}
	return n.Dropped > 0, fmt.Sprintf("%d packets dropped on the %d cut links of %s", n.Dropped, len(x.links), x.target.String())
}

// quiet is how far apart two readings of a counter must be at least to show
// that it no longer rises.
const quiet = 20 * time.Millisecond

// passes looks whether packets pass again: while somebody exchanges packets
// with the node, the counter of dropped ones stands still.
func (x *cut) passes(ctx context.Context, handle string) (bool, string) {
	before, err := x.network.ImpairmentCounters(ctx, handle)
	if err != nil {
		return false, fmt.Sprintf("the counters of the cut cannot be read: %v", err)
	}
	began := time.Now()
	held, exchanged := x.exchanges(ctx)
	if !held {
		return false, exchanged
	}
	select {
	case <-time.After(quiet - time.Since(began)):
	case <-ctx.Done():
		return false, "there was no time left to see whether packets are still dropped"
	}
	after, err := x.network.ImpairmentCounters(ctx, handle)
	if err != nil {
		return false, fmt.Sprintf("the counters of the cut cannot be read: %v", err)
	}
	if after.Dropped != before.Dropped {
		return false, fmt.Sprintf("packets are still dropped on the links of %s: %d, then %d", x.target.String(), before.Dropped, after.Dropped)
	}
	return true, fmt.Sprintf("%s; no more than the %d packets dropped before healing", exchanged, after.Dropped)
}

// exchanges looks whether packets get through to the node and back. A member's
// linearizable read needs its peers; /readyz needs the harness, and etcd.
func (x *cut) exchanges(ctx context.Context) (bool, string) {
	var looks []look
	if _, ok := x.cluster.(framework.EtcdAccess); ok && slices.Contains(x.components, framework.Etcd) {
		looks = append(looks, func(ctx context.Context) (bool, string) { return etcdReads(ctx, x.cluster, x.target.Node) })
	}
	if slices.Contains(x.components, framework.APIServer) {
		if e, ok := entranceOf(x.cluster, x.target.Node, framework.APIServer); ok {
			looks = append(looks, func(ctx context.Context) (bool, string) { return ready(ctx, e) })
		}
	}
	if len(looks) == 0 {
		return false, fmt.Sprintf("%s offers nothing that could be reached to show that packets pass", x.target.String())
	}
	return all(looks...)(ctx)
}
