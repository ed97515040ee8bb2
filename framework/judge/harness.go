package judge

import (
	"time"
)

func harnessHealth() definition {
	return definition{Doc: Doc{
		Name:      "harness",
		Guarantee: "The harness itself was not starved of computing time where a verdict rests on its measurements.",
		Source:    "A slow machine is never a failure of the cluster",
	}}
}

// harness judges the harness itself, once all else is judged.
func (c *court) harness() finding {
	late, limit, known := c.lateness(0, c.run.EndAt, nil)
	switch reason := c.distrust(); {
	case reason != "":
		return inconclusive("%s", reason)
	case !known:
		return inconclusive("the harness recorded nothing of its own health")
	case c.excused > 0:
		return inconclusive("the harness was starved: its timers fired up to %s late, and that cost %d verdicts", short(late), c.excused).took(late)
	case late > limit:
		return passed("The harness's timers fired up to %s late, more than %s, but no verdict was lost by it.", short(late), short(time.Duration(limit))).took(late)
	}
	return passed("The harness's timers fired at most %s late (limit %s).", short(late), short(limit)).took(late)
}
