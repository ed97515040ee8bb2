package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

var unsyncedParam = choiceParam("unsynced", "what happens to changes that no process has synced: drop discards them, as a real loss of power may, and needs PowerLoser", "keep", "drop")

// plug is how the power is cut, and what the disk lost.
type plug struct {
	power framework.PowerSwitch
	loser framework.PowerLoser // nil if unsynced changes are kept
	lost  *framework.DiskLoss  // nil until the plug is pulled
}

// plug returns the plug of a node.
func (r Request) plug(n framework.Node, power framework.PowerSwitch) (p *plug, err error) {
	p = &plug{power: power}
	if Value[string](r, "unsynced") == "drop" {
		p.loser, err = Ability[framework.PowerLoser](n, "node "+n.Name(), r.what()+" unsynced=drop")
	}
	return p, err
}

func (c *plug) off(ctx context.Context, ttl time.Duration) error {
	if c.loser == nil {
		return c.power.PowerOff(ctx, ttl)
	}
	loss, err := c.loser.PowerLoss(ctx, ttl)
	if err == nil {
		c.lost = &loss
	}
	return err
}

// told adds what the disk has lost to what is seen.
func (c *plug) told(l look) look {
	return func(ctx context.Context) (bool, string) {
		held, seen := l(ctx)
		if c.lost != nil {
			seen += fmt.Sprintf("; its disk dropped unsynced changes to %d files (%d bytes) and to %d directory entries", c.lost.Files, c.lost.Bytes, c.lost.Names)
		}
		return held, seen
	}
}

// tookNothing reports whether changes were to be dropped but no disk had any unsynced ones, so
// that the power loss did no more than a kill.
func tookNothing(plugs []*plug) bool {
	bytes, drops := int64(0), false
	for _, p := range plugs {
		drops = drops || p.loser != nil
		if p.lost != nil {
			bytes += p.lost.Bytes
		}
	}
	return drops && bytes == 0
}
