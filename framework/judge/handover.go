package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
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

// try is a write of one client or prober.
type try struct {
	attempt
	// answered tells whether an API server did what was asked, or turned it away for
	// what it asked for: a lost compare-and-swap is no failure of the cluster.
	answered bool
}

// writeSeries returns the writes that each client and each prober tried, in the order
// of their calls.
func writeSeries(run *record.Run) map[string][]try {
	series := map[string][]try{}
	for _, o := range run.Ops {
		if op := o.V; isRegister(op) && isWrite(op.Type) {
			a := attempt{op.Call, op.Return, op.Outcome == record.OK, describe(op)}
			name := "client " + op.Client
			series[name] = append(series[name], try{a, a.ok || turnedAway(op)})
		}
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Kind == record.ProbeWrite {
			name := "write probe through " + pr.Entrance
			if pr.Reused {
				name += " on a kept connection"
			}
			series[name] = append(series[name], try{attempt{pr.Start, pr.End, pr.OK, name + " " + at(pr.Start)}, pr.OK})
		}
	}
	for _, all := range series {
		slices.SortStableFunc(all, func(a, b try) int { return cmp.Compare(a.call, b.call) })
	}
	return series
}

// turnedAway tells whether an API server refused a request for what it asked for: a
// version that is not the newest or is no longer to be had, a key that is there already
// or is not there, an object that is none.
func turnedAway(op record.Op) bool {
	return op.Outcome == record.Refused && slices.ContainsFunc(turnedAwayWith, func(status string) bool { return strings.HasPrefix(op.Error, status) })
}

var turnedAwayWith = []string{"status 404 (NotFound)", "status 409 (", "status 410 (", "status 422 ("}
