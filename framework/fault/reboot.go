package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	offUnset = time.Second
	offLow   = 10 * time.Millisecond
	offHigh  = 10 * time.Minute
	// bootLimit is how long a node may take from power-on until its first
	// component runs.
	bootLimit = 60 * time.Second
)

// Reboot cuts the power of a node, or of all nodes of a zone at the same time, and restores it.
var Reboot = &Fault{
	Name:    "reboot",
	Summary: "cuts the power of a node, or of all nodes of a zone at the same time, and restores it after a while",
	Targets: []string{"node", "zone", "nodes"},
	Params:  []Param{durationParam("off", "how long power is off, shorter than the time to live", offUnset, offLow, offHigh)},
	Needs:   []string{"PowerSwitch", "ProcessReporter"},
	Example: "node/2 off=2s",
	Effects: does(record.EffectRestarted, record.EffectPower),
	takes:   func(r Request) time.Duration { return Value[time.Duration](r, "off") },
	Prepare: func(r Request) (Inject, error) {
		if off := Value[time.Duration](r, "off"); off >= r.TTL {
			return nil, r.bad("off", "shorter than the time to live, %s (default %s)", r.TTL, offUnset)
		}
		all, err := r.outages()
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if o.reporter == nil {
				return nil, r.missing("ProcessReporter", "node "+o.node.Name(), "")
			}
		}
		return func(ctx context.Context) (Injection, error) { return injectReboot(ctx, r, all) }, nil
	},
}

func injectReboot(ctx context.Context, r Request, nodes []*outage) (Injection, error) {
	off := Value[time.Duration](r, "off")
	var shares []share
	for _, o := range nodes {
		before := map[framework.Component]framework.Process{}
		shares = append(shares, share{o.node, attempt{
			what: "reboot of node " + o.node.Name(),
			ask: func(ctx context.Context) error {
				if err := o.remember(ctx, before); err != nil {
					return err
				}
				return o.power.PowerOff(ctx, off)
			},
			effect:   o.rebooted(before),
			undo:     o.power.PowerOn,
			healed:   all(o.back, o.complete(before)),
			patience: off + bootLimit,
		}.oneRequest()})
	}
	return onNodes(ctx, r.Target, shares)
}

// remember records what runs on the node.
func (o *outage) remember(ctx context.Context, running map[framework.Component]framework.Process) error {
	for _, c := range o.node.Components() {
		p, err := o.reporter.Process(ctx, c)
		if err != nil {
			return fmt.Errorf("failed to ask for the process of %s before the fault: %w", c, err)
		}
		if !p.Ended() {
			running[c] = p
		}
	}
	return nil
}

// rebooted checks whether everything that ran on the node before is gone, and at least some of it
// was replaced by new processes: the node works again.
func (o *outage) rebooted(before map[framework.Component]framework.Process) look {
	return func(ctx context.Context) (bool, string) {
		name := o.node.Name()
		if len(before) == 0 {
			return false, fmt.Sprintf("no process ran on node %s whose exit would show that the node rebooted", name)
		}
		var seen []string
		for _, c := range slices.Sorted(maps.Keys(before)) {
			now, err := o.reporter.Process(ctx, c)
			switch {
			case err != nil:
				return false, fmt.Sprintf("failed to read the state of %s on node %s: %v", c, name, err)
			case now.Ended():
				continue // it may wait for another one
			case same(now, before[c]):
				return false, fmt.Sprintf("%s on node %s still runs as %s", c, name, now.ID())
			}
			seen = append(seen, fmt.Sprintf("%s as %s instead of %s", c, now.ID(), before[c].ID()))
		}
		if len(seen) == 0 {
			return false, fmt.Sprintf("node %s was off, and nothing runs on it yet", name)
		}
		return true, fmt.Sprintf("node %s was off and runs again: %s", name, strings.Join(seen, ", "))
	}
}

// complete checks whether everything that ran on the node before runs again, or stands by.
func (o *outage) complete(before map[framework.Component]framework.Process) look {
	return func(ctx context.Context) (bool, string) {
		for _, c := range slices.Sorted(maps.Keys(before)) {
			now, err := o.reporter.Process(ctx, c)
			if err != nil {
				return false, fmt.Sprintf("failed to read the state of %s on node %s: %v", c, o.node.Name(), err)
			}
			if now.Ended() && standsBy(ctx, o.cluster, now) == "" {
				return false, fmt.Sprintf("%s on node %s does not run yet", c, o.node.Name())
			}
		}
		return true, fmt.Sprintf("all %d components that ran on it run or stand by", len(before))
	}
}
