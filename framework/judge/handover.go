package judge

import (
	"maps"
	"slices"
)

func handover() definition {
	return definition{Doc{
		Name:       "handover",
		Guarantee:  "While etcd's leadership is handed over on request, writes through every entrance go on within the bound, and none that fails does so again when it is retried.",
		Source:     "Automated HA master deployment; etcd maintenance API (MoveLeader)",
		NeedsFault: true, NeedsBound: true,
	}, judgeHandover}
}

// judgeHandover looks at the time from the request on: the fault takes effect only
// when the new leader is there, and the gap is before that.
func judgeHandover(m *matter) finding {
	from, to := m.fault.injected.Called, m.fault.healed.Called
	worst, problem := judgeGaps(m, m.run.Meta.Entrances, from, to)
	if problem != nil {
		return *problem
	}
	tried, failures := 0, 0
	series := writeSeries(m.run)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		all := series[name]
		for i, w := range all {
			if w.call < from || w.call >= to {
				continue
			}
			if tried++; w.answered {
				continue
			}
			failures++
			retry := slices.IndexFunc(all[i+1:], func(next try) bool { return next.call >= w.ret })
			if retry >= 0 && !all[i+1+retry].answered {
				return failed("No write may fail beyond a retry while leadership is handed over: %s failed, and so did its retry, the %s (%s).",
					w.what, all[i+1+retry].what, m.fault.what()).rests(from, all[i+1+retry].ret).shows(w.what, all[i+1+retry].what)
			}
		}
	}
	return passed("While leadership was handed over (%s), the longest time without an acknowledged write was %s (through %s), within %s; of %d writes %d failed, and none of them twice.",
		m.fault.what(), short(worst.length()), worst.entrance, m.bound, tried, failures).took(worst.length())
}
