package judge

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// throughputWindow is how long a time must be for a rate in it to count.
	throughputWindow = 5 * time.Second
	// enoughTraffic is how many operations make a rate.
	enoughTraffic = 50
	// finalPhase is the phase that begins when the traffic has stopped.
	finalPhase = "final reads"
)

func throughput() definition {
	return definition{Doc{
		Name:       "throughput",
		Guarantee:  "Once the cluster is steady again after the last healing, clients get as many operations acknowledged per second as the given part of what they got before the first fault.",
		Source:     "Recovery is complete when the service is, not when the processes run",
		NeedsFault: true,
		Params: map[string]string{
			"least": "the part of the rate before that must be there afterwards, above 0 and up to 1 (default 0.5)",
		},
	}, judgeThroughput}
}

func judgeThroughput(m *matter) finding {
	least, err := strconv.ParseFloat(m.param("least", "0.5"), 64)
	if err != nil || math.IsNaN(least) || least <= 0 || least > 1 {
		return inconclusive("the check cannot be judged: parameter least = %q is no part, such as 0.5", m.check.Params["least"])
	}
	from, to := m.quiet()
	before := m.rate("before the first fault", from, to)
	from, to, problem := m.recovered()
	if problem != nil {
		return *problem
	}
	after := m.rate("after the last healing", from, to)
	for _, r := range []rate{before, after} {
		if r.length < throughputWindow {
			return inconclusive("the traffic %s lasted %s, less than the %s that a rate needs", r.when, short(max(0, r.length)), throughputWindow)
		}
	}
	if before.acks < enoughTraffic {
		return inconclusive("there was too little traffic %s: %d acknowledged operations", before.when, before.acks)
	}
	part := after.perSecond() / before.perSecond()
	measured := fmt.Sprintf("%.0f %%", 100*part)
	if part < least {
		return failed("After the last healing, clients must get at least %.0f %% of the operations acknowledged per second that they got before the first fault: they got %s, %s.",
			100*least, measured, after).counted("%s", measured).rests(from, to).shows(before.String(), after.String())
	}
	return passed("Clients got %s, %s of the rate before the first fault (%s; at least %.0f %%).", after, measured, before, 100*least).
		counted("%s", measured)
}

// rate is how many operations were acknowledged in some time.
type rate struct {
	when   string
	acks   int
	length time.Duration
}

func (r rate) perSecond() float64 { return float64(r.acks) / r.length.Seconds() }

func (r rate) String() string {
	return fmt.Sprintf("%.1f acknowledged operations per second %s (%d in %s)", r.perSecond(), r.when, r.acks, short(r.length))
}

// rate counts the operations and lists of the general traffic that were
// acknowledged between two moments.
func (m *matter) rate(name string, from, to record.Nanos) rate {
	r := rate{when: name, length: time.Duration(to - from)}
	for _, o := range m.run.Ops {
		if op := o.V; op.Purpose == "" && op.Outcome == record.OK && op.Return >= from && op.Return < to {
			r.acks++
		}
	}
	for _, o := range m.run.Lists {
		if l := o.V; l.Purpose == "" && l.Outcome == record.OK && l.Return >= from && l.Return < to {
			r.acks++
		}
	}
	return r
}

// recovered is the time from the steady state after the last healing until the
// traffic stopped, or why there is none.
func (m *matter) recovered() (from, to record.Nanos, problem *finding) {
	last := record.Nanos(0)
	for _, inj := range m.faults {
		if text := unproven(inj.id, inj); text != "" {
			f := inconclusive("%s", text)
			return 0, 0, &f
		}
		last = max(last, inj.healEffect())
	}
	to = m.run.EndAt
	for _, p := range m.run.Phases {
		if p.V.Name == finalPhase {
			to = min(to, p.At)
		}
	}
	for _, s := range m.run.Steadies {
		if s.V.Phase == "after" && s.V.OK && s.At >= last {
			return s.At, to, nil
		}
	}
	f := inconclusive("the cluster was not seen to be steady after the last healing %s", at(last))
	return 0, 0, &f
}
