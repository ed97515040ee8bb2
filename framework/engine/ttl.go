package engine

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// limit is how long finding the target and breaking it may take.
func (in *Inject) limit() time.Duration {
	f, err := fault.Find(in.Fault)
	if err != nil {
		return injectLimit // a user's own fault
	}
	return injectLimit + f.TakesWith(in.Params)
}

// TTL returns the time to live of the injection that is a step of the timeline, on a cluster with
// these settings: as the experiment says, or more than the rest of the timeline can take.
func (e Experiment) TTL(step int, settings framework.Settings) (time.Duration, error) {
	if in := e.Timeline[step].Inject; in != nil && in.TTL != "" {
		return duration(in.TTL, settings)
	}
	total := spare
	for _, s := range e.Timeline[step:] {
		formula, fixed := "", time.Duration(0)
		switch {
		case s.Inject != nil:
			fixed = s.Inject.limit()
		case s.Heal != "":
			fixed = healLimit
		case s.Wait != "":
			formula = s.Wait
		case s.Until != nil:
			formula = s.Until.AtMost
		case s.Action != nil && ChangesNodes(s.Action.Name):
			fixed = changeLimit(s.Action.Name)
		case s.Action != nil:
			fixed = actions()[s.Action.Name].atMost()
		}
		if formula != "" {
			d, err := duration(formula, settings)
			if err != nil {
				return 0, err
			}
			fixed = d
		}
		total += fixed
	}
	return total, nil
}
