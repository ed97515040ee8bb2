package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// pressLimit is how long a load process may take to show: it has to compete on a machine that may
// already be busy.
const pressLimit = 30 * time.Second

// onMachines completes a pressure fault. For a component it acts on the machine that runs it.
func onMachines(f *Fault, prepare func(Request, []*burden) (Inject, error)) *Fault {
	f.Targets = []string{"node", "zone", "nodes", "component", "agent", "balancer", "kwok", "workers"}
	f.Params = append(f.Params, byParam)
	f.Needs = []string{"Presser", "HostPresser (balancer, kwok, workers)", "Limiter (by=cgroup)"}
	f.Effects = does(record.EffectLoad)
	f.Prepare = func(r Request) (Inject, error) {
		all, err := r.burdens()
		if err != nil {
			return nil, err
		}
		return prepare(r, all)
	}
	return f
}

// burden is the load process of one machine.
type burden struct {
	name    string         // "node node-2"
	node    framework.Node // nil for a host that is not one
	presser framework.Presser
	handle  string // empty until the process was requested
}

// burdens returns all machines that the fault puts under load.
func (r Request) burdens() ([]*burden, error) {
	t := r.Target
	if t.Host != "" {
		hosts, err := Ability[framework.HostPresser](r.Cluster, "cluster "+r.Cluster.Name(), r.what()+" on a host that is not a node")
		if err != nil {
			return nil, err
		}
		presser, err := hosts.PresserOf(t.Host)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Asked, err)
		}
		return []*burden{{name: "host " + t.Host, presser: presser}}, nil
	}
	if t.Component != "" {
		if _, _, err := r.holder(); err != nil {
			return nil, err
		}
	}
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	var all []*burden
	for _, n := range nodes {
		presser, err := onNode[framework.Presser](r, n)
		if err != nil {
			return nil, err
		}
		all = append(all, &burden{name: "node " + n.Name(), node: n, presser: presser})
	}
	return all, nil
}

// press puts machines under load. shown returns what proves it.
func (r Request) press(ctx context.Context, all []*burden, want framework.Pressure, shown func(*burden) look) (Injection, error) {
	var shares []share
	for _, b := range all {
		shares = append(shares, share{b.node, attempt{
			what: fmt.Sprintf("%s on %s", r.Fault.Name, b.name),
			ask: func(ctx context.Context) (err error) {
				b.handle, err = b.presser.Press(ctx, want, r.TTL)
				return err
			},
			effect: shown(b),
			lasts: func(ctx context.Context) (bool, string) {
				now, err := b.presser.Load(ctx, b.handle)
				return err != nil || now.PID != 0, fmt.Sprintf("load process %s on %s had exited", b.handle, b.name)
			},
			undo:     ifGiven(&b.handle, b.presser.Relieve),
			healed:   b.relieved,
			patience: pressLimit,
		}})
	}
	return onNodes(ctx, r.Target, shares)
}

// load returns what the load process uses now, and why it does not exist, if so.
func (b *burden) load(ctx context.Context) (now framework.Load, absent string) {
	now, err := b.presser.Load(ctx, b.handle)
	switch {
	case err != nil:
		return now, fmt.Sprintf("failed to read the state of load process %s on %s: %v", b.handle, b.name, err)
	case now.PID == 0:
		return now, fmt.Sprintf("load process %s on %s does not exist", b.handle, b.name)
	}
	return now, ""
}

// relieved checks whether the load process is gone.
func (b *burden) relieved(ctx context.Context) (bool, string) {
	now, err := b.presser.Load(ctx, b.handle)
	switch {
	case err != nil:
		return false, fmt.Sprintf("failed to read the state of load process %s on %s: %v", b.handle, b.name, err)
	case now.PID != 0:
		return false, fmt.Sprintf("load process %s on %s still runs as process %d (started at tick %d)", b.handle, b.name, now.PID, now.StartTicks)
	}
	return true, fmt.Sprintf("load process %s on %s is gone", b.handle, b.name)
}
