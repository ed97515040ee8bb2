package judge

import (
	"fmt"
	"math"
	"strconv"
)

// enoughWrites is how many writes make a share.
const enoughWrites = 20

func writesSucceed() definition {
	return definition{Doc{
		Name:       "writes-succeed",
		Guarantee:  "Of the writes that clients and probes try while the faults last, at least the given part succeeds.",
		Source:     "A degraded network or disk costs time, not service",
		NeedsFault: true,
		Params: map[string]string{
			"least":  "the part that must succeed, above 0 and up to 1 (default 0.5)",
			"faults": "IDs of all injections that must be in force, separated by commas (default: the check's fault)",
		},
	}, judgeWritesSucceed}
}

func judgeWritesSucceed(m *matter) finding {
	least, err := strconv.ParseFloat(m.param("least", "0.5"), 64)
	if err != nil || math.IsNaN(least) || least <= 0 || least > 1 {
		return inconclusive("the check cannot be judged: parameter least = %q is no part, such as 0.5", m.check.Params["least"])
	}
	from, to := m.inForce()
	tried, done := 0, 0
	for _, all := range writeSeries(m.run) {
		for _, w := range all {
			if w.call < from || w.call >= to || w.answered && !w.ok {
				continue // one that was turned away says nothing either way
			}
			tried++
			if w.ok {
				done++
			}
		}
	}
	if tried < enoughWrites {
		return inconclusive("%s tried during the %s, fewer than the %d that it takes to say anything", plural(tried, "write"), m.fault.what(), enoughWrites)
	}
	share := fmt.Sprintf("%.0f %%", 100*float64(done)/float64(tried))
	if float64(done) < least*float64(tried) {
		return failed("At least %.0f %% of the writes must succeed during the %s: of %d that were tried, %d did (%s).",
			100*least, m.fault.what(), tried, done, share).counted("%s", share).rests(from, to)
	}
	return passed("During the %s, %d of %d writes succeeded (%s, at least %.0f %%).", m.fault.what(), done, tried, share, 100*least).
		counted("%s", share)
}
