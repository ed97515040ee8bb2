package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

const unsyncedDoc = "what becomes of changes that the disk was not told to sync: keep (default), or drop, as a real loss of power may (needs PowerLoser)"

// plug is how the plug is pulled, and what it took from the disk.
type plug struct {
	power framework.PowerSwitch
	loser framework.PowerLoser // nil where unsynced changes are kept
	lost  *framework.DiskLoss  // nil until the plug is pulled
}

// newPlug reads the parameter unsynced.
func newPlug(f Fault, n framework.Node, p Params, power framework.PowerSwitch) (*plug, error) {
	c := &plug{power: power}
	unsynced, err := choiceParam(f, p, "unsynced", "keep", "drop")
	if err != nil || unsynced == "keep" {
		return c, err
	}
	c.loser, err = ability[framework.PowerLoser](n, "node "+n.Name(), "fault "+f.Name()+" unsynced=drop")
	return c, err
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

// told adds to what is seen what the disk has lost.
func (c *plug) told(l look) look {
	return func(ctx context.Context) (bool, string) {
		held, seen := l(ctx)
		if c.lost != nil {
			seen += fmt.Sprintf("; its disk forgot unsynced changes of %d files (%d bytes) and of %d names", c.lost.Files, c.lost.Bytes, c.lost.Names)
		}
		return held, seen
	}
}

// tookNothing reports whether changes were to be dropped and no disk had any to forget,
// so that nothing was lost with the power but what a kill would have ended as well.
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
