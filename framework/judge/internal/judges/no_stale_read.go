package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const defaultExposed = 20

var noStaleRead = Definition{Doc{
	Name:       "no-stale-read",
	Guarantee:  "No quorum read through the API server on the node that was hit, or from its etcd member, is stale: neither while the fault lasts nor for the time of the bound after its healing.",
	Source:     "etcd API guarantees (linearizability); raft dissertation, section 6.4 (processing read-only queries)",
	Lasting:    true,
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"least": "how many reads must have been answered after the healing was called, of keys that were written through other nodes while the fault lasted (default 20)",
	},
}, given(count("least", defaultExposed, 1), judgeNoStaleRead)}

func judgeNoStaleRead(m *facts.Case, least int) Finding {
	node := m.Fault.Node()
	from, healed := m.Fault.Effect(), m.Fault.Healed.Called
	to := m.Fault.HealEffect() + record.Nanos(m.Bound.Limit)
	known := facts.NewWriteLog(m.Run)
	exposed := 0
	var stale, newer *record.Op
	for _, read := range record.Each(m.Run.Ops) {
		if !facts.IsQuorumRead(read) || read.Purpose == "ready" || read.Entrance != node || read.Outcome != record.OK || read.Call < from || read.Call >= to {
			continue
		}
		if w := known.StaleAgainst(read); w != nil && (stale == nil || read.Call < stale.Call) {
			stale, newer = &read, w
		}
		// One that was answered before the healing says nothing about the time after it: an API server
		// may read from other members, too.
		if read.Return < healed {
			continue
		}
		for _, w := range known.Of(read).Writes {
			if w.Entrance != node && w.Outcome == record.OK && w.Call >= from && w.Call < healed && w.Return < read.Call {
				exposed++
				break
			}
		}
	}
	if stale != nil {
		f := failStale(m, stale, newer)
		if stale.Call >= healed {
			f.Evidence = append(f.Evidence, "it was called "+text.Short(time.Duration(stale.Call-healed))+" after the healing")
		}
		return f
	}
	if exposed < least {
		return Inconclusive("through %s, %d quorum reads were answered after the healing was called, of keys that had been written through other nodes during the %s, fewer than the %d required for a verdict",
			node, exposed, m.Fault.What(), least)
	}
	return Passed("Of %d quorum reads through %s, of keys written through other nodes during the %s, none was stale until %s after it.",
		exposed, node, m.Fault.What(), text.Short(m.Bound.Limit)).number(exposed, "read")
}
