package judge

func damageContained() definition {
	return definition{Doc{
		Name:       "damage-contained",
		Guarantee:  "An etcd member whose data are damaged or gone does not serve: it refuses to start, or raises the alarm CORRUPT.",
		Source:     "etcd data corruption guide",
		NeedsFault: true,
		Params: map[string]string{
			"restart": "the injection that has the member read its data again (default: the check's fault does)",
		},
	}, judgeDamageContained}
}

// damageLooks is how often the member must have been asked.
const damageLooks = 3

func judgeDamageContained(m *matter) finding {
	from, to := m.fault.effect(), m.fault.healed.Called
	if id := m.check.Params["restart"]; id != "" {
		inj := m.faults[id]
		if inj == nil || inj.injected == nil {
			return inconclusive("the record has no injection %q", id)
		}
		from = max(from, inj.effect())
	}
	node, asked := m.fault.node(), 0
	for _, e := range m.run.Etcd {
		s := e.V
		if s.Node != node || e.At < from || e.At >= to {
			continue
		}
		if hasAlarm(s, "CORRUPT") {
			return passed("The etcd member on %s raised the alarm CORRUPT %s, after the %s.", node, at(e.At), m.fault.what()).counted("%d looks", asked)
		}
		if s.OK && s.Leader != "" {
			return failed("An etcd member with damaged data must not serve: the one on %s answered %s, after the %s, and follows a leader.", node, at(e.At), m.fault.what()).
				rests(from, e.At)
		}
		asked++
	}
	if asked < damageLooks {
		return inconclusive("the etcd member on %s was asked %d times after the %s, and it takes %d", node, asked, m.fault.what(), damageLooks)
	}
	restarts := 0
	for _, p := range m.run.Processes {
		if p.V.Node == node && p.V.Component == "etcd" && p.At >= from && p.At < to && p.V.LastExit != "" {
			restarts++
		}
	}
	return passed("The etcd member on %s served nobody after the %s: it was asked %d times, and ended again and again (%d changes of its process were seen).",
		node, m.fault.what(), asked, restarts).counted("%d looks", asked)
}
