package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

// enoughWrites is how many writes make a share.
const enoughWrites = 20

var writesSucceed = Definition{Doc{
	Name:       "writes-succeed",
	Guarantee:  "Of the writes that clients and probes try while the faults last, at least the given fraction succeeds.",
	Source:     "A degraded network or disk costs time, not service",
	NeedsFault: true,
	Params: map[string]string{
		"least":  "the fraction that must succeed, above 0 and up to 1 (default 0.5)",
		"faults": "IDs of all injections that must be active, separated by commas (default: the check's fault)",
	},
}, hitsMembers(judgeWritesSucceed)}

func judgeWritesSucceed(m *facts.Case) Finding {
	least, problem := shareParam(m, "least")
	if problem != nil {
		return *problem
	}
	from, to := m.Active()
	tried, done := 0, 0
	for _, all := range facts.WriteSeries(m.Run) {
		for _, w := range all {
			if w.Call < from || w.Call >= to || w.Answered && !w.OK {
				continue // a rejected one says nothing either way
			}
			tried++
			if w.OK {
				done++
			}
		}
	}
	if tried < enoughWrites {
		return Inconclusive("%s %s tried during the %s, fewer than the %d required for a verdict", text.Plural(tried, "write"), text.Was(tried), m.Fault.What(), enoughWrites)
	}
	share := fmt.Sprintf("%.0f %%", 100*float64(done)/float64(tried))
	if float64(done) < least*float64(tried) {
		return Failed("At least %.0f %% of the writes must succeed during the %s: of %d that were tried, %d did (%s).",
			100*least, m.Fault.What(), tried, done, share).counted("%s", share).Rests(from, to)
	}
	return Passed("During the %s, %d of %d writes succeeded (%s, at least %.0f %%).", m.Fault.What(), done, tried, share, 100*least).
		counted("%s", share)
}
