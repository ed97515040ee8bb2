package engine

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// The typical times of the parts of an experiment, apart from the times that it names, as
// measured on an idle machine with two cores.
const (
	expectedAround   = 2 * time.Second // baseline, final steady state and final reads
	expectedAction   = 100 * time.Millisecond
	expectedHealing  = time.Second     // of one injection, with its proof
	expectedRecovery = 3 * time.Second // until the steady state, once everything is healed
)

// Expected is about how long an experiment takes on a cluster with these settings: its waits, the
// typical waits of its conditions, and some seconds for the rest. It is for planning and for
// progress output; no verdict depends on it.
func (e Experiment) Expected(s framework.Settings) time.Duration {
	now := expectedAround
	began := map[string]time.Duration{}   // of each injection
	changed := map[string]time.Duration{} // when it was last injected or healed
	network := map[string]bool{}
	active := 0
	for _, step := range e.Timeline {
		switch {
		case step.Inject != nil:
			id := step.Inject.ID
			if f, err := fault.Find(step.Inject.Fault); err == nil {
				network[id] = isNetwork(f)
			}
			began[id], changed[id] = now, now
			active++
		case step.Heal != "":
			takes := expectedHealing
			for _, id := range step.heals() {
				if network[id] {
					// TCP's retransmission backs off for about as long as the cut lasted.
					takes = max(takes, expectedHealing+(now-began[id])/2)
				}
			}
			now += takes
			for _, id := range step.heals() {
				changed[id] = now
				active--
			}
			if active == 0 {
				now += expectedRecovery
			}
		case step.Wait != "":
			now += expectedTime(step.Wait, s)
		case step.Until != nil:
			from := now
			if at, ok := changed[step.Until.Fault]; ok {
				from = at
			}
			now = max(now, from+step.Until.expected(s))
		case step.Action != nil:
			now += max(expectedAction, actions()[step.Action.Name].takes)
		}
	}
	if active > 0 {
		now += expectedHealing + expectedRecovery
	}
	return now
}

func (u *Until) expected(s framework.Settings) time.Duration {
	if formula := conditions()[u.Condition].typical; formula != "" {
		return expectedTime(formula, s)
	}
	return expectedTime(u.AtMost, s) / 2
}

// expectedTime computes a formula; 0 if that fails: an experiment with such a formula is refused
// before it runs.
func expectedTime(formula string, s framework.Settings) time.Duration {
	d, err := duration(formula, s)
	if err != nil {
		return 0
	}
	return d
}
