package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
)

func damageContained() Definition {
	return Definition{verdict.Doc{
		Name:       "damage-contained",
		Guarantee:  "An etcd member whose data are damaged or gone does not serve: it refuses to start, or raises the CORRUPT alarm.",
		Source:     "etcd data corruption guide",
		NeedsFault: true,
		Params: map[string]string{
			"restart": "the injection that makes the member read its data again (default: the check's fault)",
		},
	}, judgeDamageContained}
}

// damageLooks is how often the member must have been queried.
const damageLooks = 3

func judgeDamageContained(m *facts.Matter) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	if id := m.Check.Params["restart"]; id != "" {
		inj := m.Faults[id]
		if inj == nil || inj.Injected == nil {
			return Inconclusive("the record has no injection %q", id)
		}
		from = max(from, inj.Effect())
	}
	node, asked := m.Fault.Node(), 0
	served := facts.Endless // when it first answered and followed a leader
	for _, e := range m.Run.Etcd {
		s := e.V
		if s.Node != node || e.At < from || e.At >= to {
			continue
		}
		switch alarm := facts.HasAlarm(s, "CORRUPT"); {
		case alarm && served < e.At:
			return Inconclusive("the etcd member on %s raised the CORRUPT alarm %s, but followed a leader %s: what it served until then is not known", node, text.At(e.At), text.At(served))
		case alarm:
			return Passed("The etcd member on %s raised the CORRUPT alarm %s, after the %s.", node, text.At(e.At), m.Fault.What()).counted("%d looks", asked)
		}
		if s.OK && s.Leader != "" {
			served = min(served, e.At)
		}
		asked++
	}
	if served < facts.Endless {
		return Failed("An etcd member with damaged data must not serve: the one on %s answered %s, after the %s, and follows a leader.", node, text.At(served), m.Fault.What()).
			Rests(from, served)
	}
	if asked < damageLooks {
		return Inconclusive("the etcd member on %s was queried %d times after the %s, fewer than the %d required for a verdict", node, asked, m.Fault.What(), damageLooks)
	}
	restarts := 0
	for _, p := range m.Run.Processes {
		if p.V.Node == node && p.V.Component == "etcd" && p.At >= from && p.At < to && p.V.LastExit != "" {
			restarts++
		}
	}
	return Passed("The etcd member on %s served no client after the %s: it was queried %d times, and exited repeatedly (%d changes of its process were seen).",
		node, m.Fault.What(), asked, restarts).counted("%d looks", asked)
}
