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

// burden is the load process of one node.
type burden struct {
	node    framework.Node
	presser framework.Presser
	handle  string // empty until the process was asked for
}

// burdens returns all nodes that the fault puts under load.
func burdens(f Fault, c framework.Cluster, t Target) ([]*burden, error) {
	nodes, err := wholeNodes(f, c, t)
	if err != nil {
		return nil, err
	}
	var all []*burden
	for _, n := range nodes {
		presser, err := ability[framework.Presser](n, "node "+n.Name(), "fault "+f.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, &burden{node: n, presser: presser})
	}
	return all, nil
}

// press puts all nodes of the target under load. shown tells what shows it.
func press(ctx context.Context, f Fault, c framework.Cluster, t Target, want framework.Pressure, ttl time.Duration, shown func(*burden) look) (Injection, error) {
	all, err := burdens(f, c, t)
	if err != nil {
		return nil, err
	}
	var shares []share
	for _, b := range all {
		shares = append(shares, share{b.node, attempt{
			what: fmt.Sprintf("%s on node %s", f.Name(), b.node.Name()),
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
		return now, fmt.Sprintf("load process %s on node %s cannot be asked for: %v", b.handle, b.node.Name(), err)
	case now.PID == 0:
		return now, fmt.Sprintf("there is no load process %s on node %s", b.handle, b.node.Name())
	}
	return now, ""
}

// relieved looks whether the load process is gone.
func (b *burden) relieved(ctx context.Context) (bool, string) {
	now, err := b.presser.Load(ctx, b.handle)
	switch {
	case err != nil:
		return false, fmt.Sprintf("load process %s on node %s cannot be asked for: %v", b.handle, b.node.Name(), err)
	case now.PID != 0:
		return false, fmt.Sprintf("load process %s on node %s still runs as process %d (started at tick %d)", b.handle, b.node.Name(), now.PID, now.StartTicks)
	}
	return true, fmt.Sprintf("load process %s on node %s is gone", b.handle, b.node.Name())
}
