package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var damageContained = Definition{Doc{
	Name:       "damage-contained",
	Guarantee:  "An etcd member whose data is damaged or gone does not serve: it refuses to start, or raises the CORRUPT alarm for itself.",
	Source:     "etcd data corruption guide",
	NeedsFault: true,
	Params: map[string]string{
		"restart": "the injection that makes the member read its data again (default: the check's fault)",
	},
}, judgeDamageContained}

const (
	// damageLooks is how often the member must have been queried.
	damageLooks = 3
	// answerLag is how much earlier than its entry a member's answer may be: other queries of
	// the same member may come between.
	answerLag = 500 * time.Millisecond
)

func judgeDamageContained(m *facts.Case) Finding {
	reads, to := m.Fault, m.Fault.Healed.Called
	if id := m.Check.Params["restart"]; id != "" {
		if reads = m.Faults[id]; reads == nil || reads.Injected == nil {
			return Inconclusive("the record has no injection %q", id)
		}
	}
	from := max(m.Fault.Effect(), reads.Effect()) + record.Nanos(answerLag)
	node, asked := m.Fault.Node(), 0
	served := facts.Endless // when it first answered and followed a leader
	alone := facts.Endless  // when it first answered without a leader
	for at, s := range record.Each(m.Run.Etcd) {
		if s.Node != node || at < from || at >= to {
			continue
		}
		switch alarm := facts.OwnAlarm(s, "CORRUPT"); {
		case alarm && served < at:
			return Inconclusive("the etcd member on %s raised the CORRUPT alarm %s, but followed a leader %s: what it served until then is not known", node, text.At(at), text.At(served))
		case alarm:
			return Passed("The etcd member on %s raised the CORRUPT alarm %s, after the %s.", node, text.At(at), m.Fault.What()).counted("%d queries", asked)
		case s.OK && s.Leader != "":
			served = min(served, at)
		case s.OK:
			alone = min(alone, at)
		}
		asked++
	}
	exits := exitsAfterStart(m.Run, node, reads.Injected.Called, to)
	switch {
	case served < facts.Endless:
		return Failed("An etcd member with damaged data must not serve: the one on %s answered %s, after the %s, and follows a leader.", node, text.At(served), m.Fault.What()).
			Rests(from, served)
	case alone < facts.Endless:
		return Inconclusive("the etcd member on %s answered %s, after the %s: it follows no leader, but may answer serializable reads from damaged data", node, text.At(alone), m.Fault.What())
	case asked < damageLooks:
		return Inconclusive("the etcd member on %s was queried %d times after the %s, fewer than the %d required for a verdict", node, asked, m.Fault.What(), damageLooks)
	case exits == 0:
		return Inconclusive("etcd on %s was not seen to start and exit after the %s, so it may not have read its data", node, m.Fault.What())
	}
	return Passed("The etcd member on %s served no client after the %s: it was queried %d times, and etcd started and exited %s.",
		node, m.Fault.What(), asked, text.Plural(exits, "time")).counted("%d queries", asked)
}

// exitsAfterStart returns how many processes of etcd on a node started at a time or later and
// were seen to have exited before another time.
func exitsAfterStart(run *record.Run, node string, from, to record.Nanos) int {
	before, exits := 0, 0
	for _, p := range run.Processes {
		switch s := p.V; {
		case s.Node != node || s.Component != "etcd" || s.Error != "" || p.At >= to:
		case p.At < from:
			before = s.Restarts
		case s.PID != 0:
			exits = max(exits, s.Restarts-before-1)
		default:
			exits = max(exits, s.Restarts-before)
		}
	}
	return exits
}
