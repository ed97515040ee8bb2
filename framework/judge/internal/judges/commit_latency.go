package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughLatencies is how many writes through an API server are enough for a median.
const enoughLatencies = 10

var commitLatency = Definition{Doc{
	Name:       "commit-latency",
	Guarantee:  "While the faults last, the median time that a write takes through each API server is longer than before by no more than the bound, or twice the bound if API servers ask etcd members of other nodes: a request to a member takes as long as one between members.",
	Source:     "Automated HA master deployment (latency between zones)",
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"faults": "IDs of all injections that together add the latency, separated by commas (default: the check's fault)",
	},
}, hitsMembers(judgeCommitLatency)}

func judgeCommitLatency(m *facts.Case) Finding {
	quietFrom, quietTo := m.Quiet()
	from, to := m.Active()
	if from >= to {
		return Inconclusive("the faults were never active together: the last took effect %s, the first was healed %s", text.At(from), text.At(to))
	}
	bound := *m.Bound
	if m.Run.Meta.RemoteEtcd {
		bound = bound.Plus(facts.RemoteEtcd, bound.Limit)
	}
	return bounded(bound)(latencyWithin(m, bound, quietFrom, quietTo, from, to))
}

func latencyWithin(m *facts.Case, bound verdict.Bound, quietFrom, quietTo, from, to record.Nanos) Finding {
	worst, through := time.Duration(-1<<62), ""
	var seen []string
	for _, e := range m.APIServers() {
		before, n := medianWrite(m, e, quietFrom, quietTo)
		during, k := medianWrite(m, e, from, to)
		if min(n, k) < enoughLatencies {
			return Inconclusive("too few writes through %s to compare: %d before the faults and %d while they lasted, and %d each are required", e, n, k, enoughLatencies)
		}
		// Writes that are slow anyway hide the latency that the faults add.
		if before > bound.Limit/2 {
			return Inconclusive("the median write through %s already took %s before the faults, more than half of the bound of %s, so its increase cannot be measured", e, text.Short(before), bound)
		}
		seen = append(seen, e+": "+text.Short(before)+" before, "+text.Short(during)+" while the faults lasted")
		if d := during - before; d > worst {
			worst, through = d, e
		}
	}
	if through == "" {
		return Inconclusive("the record names no API server")
	}
	if worst > bound.Limit {
		return Failed("A write must take at most %s longer during the %s than before: through %s, the median write took %s longer.",
			bound, m.Fault.What(), through, text.Short(worst)).Took(worst).Rests(from, to).Shows(seen...)
	}
	return Passed("During the %s, the median write took at most %s longer than before (through %s), within %s.",
		m.Fault.What(), text.Short(worst), through, bound).Took(worst).Shows(seen...)
}

// medianWrite returns the median time of the writes of clients through an entrance that were
// called between two moments, and how many there were. A write whose client gave up took at least
// as long as that.
func medianWrite(m *facts.Case, entrance string, from, to record.Nanos) (time.Duration, int) {
	var took []time.Duration
	for _, op := range record.Each(m.Run.Ops) {
		if facts.IsRegister(op) && op.Purpose == "" && op.Entrance == entrance && facts.IsWrite(op.Type) && op.Outcome != record.Refused && op.Call >= from && op.Call < to {
			took = append(took, time.Duration(op.Return-op.Call))
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}
