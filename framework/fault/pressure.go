package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// pressLimit is how long a load process may take to show: it gets its share of
// a machine that may be busy already.
const pressLimit = 30 * time.Second

// pressedTargets are what the faults of pressure take. That of a component is felt
// on the machine that runs it.
func pressedTargets() []string {
	return []string{"node", "zone", "component", "balancer", "kwok", "workers"}
}

// burden is the load process of one machine.
type burden struct {
	name    string         // "node node-2"
	node    framework.Node // nil for a host that is none
	presser framework.Presser
	handle  string // empty until the process was asked for
}

// burdens returns all machines that the fault puts under load.
func burdens(f Fault, c framework.Cluster, t Target) ([]*burden, error) {
	what := "fault " + f.Name()
	if t.Host != "" {
		hosts, err := ability[framework.HostPresser](c, "cluster "+c.Name(), what+" on a host that is no node")
		if err != nil {
			return nil, err
		}
		presser, err := hosts.PresserOf(t.Host)
		if err != nil {
			return nil, fmt.Errorf("%s: target %s: %w", what, t.Asked, err)
		}
		return []*burden{{name: "host " + t.Host, presser: presser}}, nil
	}
	if t.Component != "" {
		if _, _, err := componentHolder(f, c, t); err != nil {
			return nil, err
		}
		t.Component = ""
	}
	nodes, err := wholeNodes(f, c, t)
	if err != nil {
		return nil, err
	}
	var all []*burden
	for _, n := range nodes {
		presser, err := ability[framework.Presser](n, "node "+n.Name(), what)
		if err != nil {
			return nil, err
		}
		all = append(all, &burden{name: "node " + n.Name(), node: n, presser: presser})
	}
	return all, nil
}

// press puts all machines of the target under load. shown tells what shows it.
func press(ctx context.Context, f Fault, c framework.Cluster, t Target, want framework.Pressure, ttl time.Duration, shown func(*burden) look) (Injection, error) {
	all, err := burdens(f, c, t)
	if err != nil {
		return nil, err
	}
	var shares []share
	for _, b := range all {
		shares = append(shares, share{b.node, attempt{
			what: fmt.Sprintf("%s on %s", f.Name(), b.name),
			ask: func(ctx context.Context) (err error) {
				b.handle, err = b.presser.Press(ctx, want, ttl)
				return err
			},
			effect: shown(b),
			undo: func(ctx context.Context) error {
				if b.handle == "" {
					return nil
				}
				return b.presser.Relieve(ctx, b.handle)
			},
			healed:   b.relieved,
			patience: pressLimit,
		}})
	}
	return onNodes(ctx, t, shares)
}

// load returns what the load process takes now, and in words why there is none.
func (b *burden) load(ctx context.Context) (now framework.Load, absent string) {
	now, err := b.presser.Load(ctx, b.handle)
	switch {
	case err != nil:
		return now, fmt.Sprintf("load process %s on %s cannot be asked for: %v", b.handle, b.name, err)
	case now.PID == 0:
		return now, fmt.Sprintf("there is no load process %s on %s", b.handle, b.name)
	}
	return now, ""
}

// relieved looks whether the load process is gone.
func (b *burden) relieved(ctx context.Context) (bool, string) {
	now, err := b.presser.Load(ctx, b.handle)
	switch {
	case err != nil:
		return false, fmt.Sprintf("load process %s on %s cannot be asked for: %v", b.handle, b.name, err)
	case now.PID != 0:
		return false, fmt.Sprintf("load process %s on %s still runs as process %d (started at tick %d)", b.handle, b.name, now.PID, now.StartTicks)
	}
	return true, fmt.Sprintf("load process %s on %s is gone", b.handle, b.name)
}
