package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughLatencies is how many writes through an API server make a median.
const enoughLatencies = 10

func commitLatency() definition {
	return definition{Doc{
		Name:       "commit-latency",
		Guarantee:  "While the faults last, the median time that a write takes through each API server is longer than before by no more than the bound, or twice the bound if API servers ask etcd members of other nodes: a request to a member takes as long as one between members.",
		Source:     "Automated HA master deployment (latency between zones)",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"faults": "IDs of all injections that together make the distance, separated by commas (default: the check's fault)",
		},
	}, judgeCommitLatency}
}

func judgeCommitLatency(m *matter) finding {
	quietFrom, quietTo := m.quiet()
	from, to := m.inForce()
	if from >= to {
		return inconclusive("the faults were never in force together: the last took effect %s, the first was healed %s", at(from), at(to))
	}
	bound := *m.bound
	if m.run.Meta.RemoteEtcd {
		bound = bound.plus("remote etcd", bound.Limit)
	}
	f := m.latencyWithin(bound, quietFrom, quietTo, from, to)
	f.bound = &bound
	return f
}

func (m *matter) latencyWithin(bound Bound, quietFrom, quietTo, from, to record.Nanos) finding {
	worst, through := time.Duration(-1<<62), ""
	var seen []string
	for _, e := range m.apiServers() {
		before, n := m.medianWrite(e, quietFrom, quietTo)
		during, k := m.medianWrite(e, from, to)
		if min(n, k) < enoughLatencies {
			return inconclusive("too few writes through %s to compare: %d before the faults and %d while they lasted, and it takes %d each", e, n, k, enoughLatencies)
		}
		// Writes that are slow by themselves hide what a distance adds.
		if before > bound.Limit/2 {
			return inconclusive("the median write through %s took %s before the faults already, more than half of the bound of %s, so by how much it grew cannot be told", e, short(before), bound)
		}
		seen = append(seen, e+": "+short(before)+" before, "+short(during)+" while the faults lasted")
		if d := during - before; d > worst {
			worst, through = d, e
		}
	}
	if through == "" {
		return inconclusive("the record names no API server")
	}
	if worst > bound.Limit {
		return failed("Committing a write must take no longer than before by more than %s during the %s: through %s, the median write took %s longer.",
			bound, m.fault.what(), through, short(worst)).took(worst).rests(from, to).shows(seen...)
	}
	return passed("During the %s, the median write took at most %s longer than before (through %s), within %s.",
		m.fault.what(), short(worst), through, bound).took(worst).shows(seen...)
}

// medianWrite returns the median time of the writes of clients through an entrance that
// were called between two moments, and how many there were. One whose client gave up
// took at least as long as that.
func (m *matter) medianWrite(entrance string, from, to record.Nanos) (time.Duration, int) {
	var took []time.Duration
	for _, o := range m.run.Ops {
		op := o.V
		if isRegister(op) && op.Purpose == "" && op.Entrance == entrance && isWrite(op.Type) && op.Outcome != record.Refused && op.Call >= from && op.Call < to {
			took = append(took, time.Duration(op.Return-op.Call))
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}
