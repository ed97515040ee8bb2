package judge

import (
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const defaultExposed = 20

func noStaleRead() definition {
	return definition{Doc{
		Name:       "no-stale-read",
		Guarantee:  "No quorum read through the API server on the node that was hit, or from its etcd member, is stale: neither while the fault lasts nor for the time of the bound after its healing.",
		Source:     "etcd API guarantees (linearizability); raft dissertation, section 6.4 (processing read-only queries)",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"least": "how many answered reads it takes, of keys that were written through other nodes while the fault lasted (default 20)",
		},
	}, judgeNoStaleRead}
}

func judgeNoStaleRead(m *matter) finding {
	least, err := strconv.Atoi(m.param("least", strconv.Itoa(defaultExposed)))
	if err != nil || least < 1 {
		return inconclusive("the check cannot be judged: parameter least = %q is no number above 0", m.check.Params["least"])
	}
	node := m.fault.node()
	from, healed := m.fault.effect(), m.fault.healed.Called
	to := m.fault.healEffect() + record.Nanos(m.bound.Limit)
	known := newLedger(m.run)
	exposed := 0
	var stale, newer *record.Op
	for _, o := range m.run.Ops {
		read := o.V
		if !isQuorumRead(read) || read.Purpose == "ready" || read.Entrance != node || read.Outcome != record.OK || read.Call < from || read.Call >= to {
			continue
		}
		if w := known.staleAgainst(read); w != nil && (stale == nil || read.Call < stale.Call) {
			stale, newer = &read, w
		}
		for _, w := range known.of(read).writes {
			if w.Entrance != node && w.Outcome == record.OK && w.Call >= from && w.Call < healed && w.Return < read.Call {
				exposed++
				break
			}
		}
	}
	if stale != nil {
		f := failStale(m, stale, newer)
		if stale.Call >= healed {
			f.evidence = append(f.evidence, "it was called "+short(time.Duration(stale.Call-healed))+" after the healing")
		}
		return f
	}
	if exposed < least {
		return inconclusive("through %s, %d quorum reads were answered of keys that had been written through other nodes during the %s, fewer than the %d that it takes to say anything",
			node, exposed, m.fault.what(), least)
	}
	return passed("None of %d quorum reads through %s was stale, of keys that had been written through other nodes during the %s, until %s after it.",
		exposed, node, m.fault.what(), short(m.bound.Limit)).counted("%d reads", exposed)
}
