package judges

import (
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var handover = Definition{Doc{
	Name:       "handover",
	Guarantee:  "While etcd's leadership is handed over on request, writes through every entrance continue within the bound, and none that fails does so again when it is retried.",
	Source:     "Automated HA master deployment; etcd maintenance API (MoveLeader)",
	NeedsFault: true, NeedsBound: true,
}, judgeHandover}

// judgeHandover covers the time from the request on: the fault takes effect only when there is a
// new leader, and the gap is before that.
func judgeHandover(m *facts.Case) Finding {
	from, to := m.Fault.Injected.Called, m.Fault.Healed.Called
	worst, problem := judgeGaps(m, m.Run.Meta.Entrances, from, to)
	if problem != nil {
		return *problem
	}
	tried, failures := 0, 0
	next := m.UntilNext(from)
	series := facts.WriteSeries(m.Run)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		all := series[name]
		for i, w := range all {
			if w.Call < from || w.Call >= to {
				continue
			}
			if tried++; w.Answered {
				continue
			}
			failures++
			// A retry that another fault may have cost proves nothing.
			retry := slices.IndexFunc(all[i+1:], func(again facts.Try) bool { return again.Call >= w.Ret })
			if retry >= 0 && !all[i+1+retry].Answered && all[i+1+retry].Ret <= next {
				return Failed("A write that fails while leadership is handed over must succeed when it is retried: %s failed, and so did its retry, the %s (%s).",
					w.What, all[i+1+retry].What, m.Fault.What()).Rests(from, all[i+1+retry].Ret).Shows(w.What, all[i+1+retry].What)
			}
		}
	}
	return Passed("While leadership was handed over (%s), the longest time without an acknowledged write was %s (through %s), within %s; %d of %d writes failed, and none of them twice.",
		m.Fault.What(), text.Short(worst.Length()), worst.Entrance, m.Bound, failures, tried).Took(worst.Length())
}
