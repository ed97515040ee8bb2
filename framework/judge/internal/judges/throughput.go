package judges

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// throughputWindow is how long a time must be for a rate in it to count.
	throughputWindow = 5 * time.Second
	// enoughTraffic is how many operations make a rate.
	enoughTraffic = 50
	// finalPhase is the phase that starts when the traffic has stopped.
	finalPhase = "final reads"
)

var throughput = Definition{Doc{
	Name:       "throughput",
	Guarantee:  "Once the cluster is steady again after the last healing, the rate of acknowledged operations is at least the given fraction of the rate before the first fault.",
	Source:     "Recovery is complete when the service is, not when the processes run",
	NeedsFault: true,
	Params: map[string]string{
		"least": "the part of the earlier rate that must be reached afterwards, above 0 and up to 1 (default 0.5)",
	},
}, judgeThroughput}

func judgeThroughput(m *facts.Case) Finding {
	least, problem := shareParam(m, "least")
	if problem != nil {
		return *problem
	}
	from, to := m.Quiet()
	before := countRate(m, "before the first fault", from, to)
	from, to, problem = afterRecovery(m)
	if problem != nil {
		return *problem
	}
	after := countRate(m, "after the last healing", from, to)
	for _, r := range []rate{before, after} {
		if r.length < throughputWindow {
			return Inconclusive("the traffic %s lasted %s, less than the %s that a rate needs", r.when, text.Short(max(0, r.length)), throughputWindow)
		}
	}
	if before.acks < enoughTraffic {
		return Inconclusive("too little traffic %s: %d acknowledged operations", before.when, before.acks)
	}
	part := after.perSecond() / before.perSecond()
	measured := fmt.Sprintf("%.0f %%", 100*part)
	if part < least {
		return Failed("After the last healing, clients must reach at least %.0f %% of their rate of acknowledged operations before the first fault: they reached %s, %s.",
			100*least, measured, after).counted("%s", measured).Rests(from, to).Shows(before.String(), after.String())
	}
	return Passed("Clients reached %s, %s of the rate before the first fault (%s; at least %.0f %%).", after, measured, before, 100*least).
		counted("%s", measured)
}

type rate struct {
	when   string
	acks   int
	length time.Duration
}

func (r rate) perSecond() float64 { return float64(r.acks) / r.length.Seconds() }

func (r rate) String() string {
	return fmt.Sprintf("%.1f acknowledged operations per second %s (%d in %s)", r.perSecond(), r.when, r.acks, text.Short(r.length))
}

// countRate counts the operations and lists of the general traffic that were
// acknowledged between two moments.
func countRate(m *facts.Case, name string, from, to record.Nanos) rate {
	r := rate{when: name, length: time.Duration(to - from)}
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == "" && op.Outcome == record.OK && op.Return >= from && op.Return < to {
			r.acks++
		}
	}
	for _, o := range m.Run.Lists {
		if l := o.V; l.Purpose == "" && l.Outcome == record.OK && l.Return >= from && l.Return < to {
			r.acks++
		}
	}
	return r
}

// afterRecovery is the time from the steady state after the last healing until the
// traffic stopped, or why there is none.
func afterRecovery(m *facts.Case) (from, to record.Nanos, problem *Finding) {
	last := record.Nanos(0)
	for _, inj := range m.Faults {
		if text := facts.Unproven(inj.ID, inj); text != "" {
			return 0, 0, Inconclusive("%s", text).problem()
		}
		last = max(last, inj.HealEffect())
	}
	to = m.Run.EndAt
	for _, p := range m.Run.Phases {
		if p.V.Name == finalPhase {
			to = min(to, p.At)
		}
	}
	for _, s := range m.Run.Steadies {
		if s.V.Phase == "after" && s.V.OK && s.At >= last {
			return s.At, to, nil
		}
	}
	return 0, 0, Inconclusive("the cluster was not seen to be steady after the last healing %s", text.At(last)).problem()
}
