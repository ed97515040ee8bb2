package judge

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

// harnessDoc describes the judge of the harness.
var harnessDoc = Doc{
	Name:      "harness",
	Guarantee: "The harness itself was not starved of CPU time where a verdict rests on its measurements.",
	Source:    "A slow machine is never a failure of the cluster",
}

// harness judges the harness itself, once all else is judged. It has no verdict on a run that stopped
// early, or before anything was measured because the cluster was unhealthy: what that cost is not the
// harness's load.
func (c *evaluator) harness() judges.Finding {
	reason := c.distrust()
	if reason == "" && c.unhealthy() && len(c.run.Harness) == 0 {
		reason = c.baseline(harnessDoc)
	}
	if reason != "" {
		return judges.Finding{Verdict: NotApplicable, Sentence: reason}
	}
	s := c.strain(0, c.run.EndAt)
	starved := s.starves(starvedFloor)
	switch {
	case !s.known:
		return judges.Inconclusive("%s", starved)
	case c.downgraded > 0:
		return judges.Inconclusive("the harness or the machine was overloaded (timers up to %s late, %.1f tasks per CPU on average), which cost %s",
			text.Short(s.late), s.queue, text.Plural(c.downgraded, "verdict")).Took(s.late)
	case starved != "" && c.open > 0:
		// As when an action ran out of time.
		return judges.Inconclusive("%s, which may have cost %s", starved, text.Plural(c.open, "verdict")).Took(s.late)
	case starved != "":
		return judges.Passed("No verdict was lost to overload, but %s.", starved).Took(s.late)
	}
	return judges.Passed("The harness's timers fired at most %s late (limit %s), and %.1f tasks shared each CPU on average.",
		text.Short(s.late), text.Short(starvedFloor), s.queue).Took(s.late)
}
