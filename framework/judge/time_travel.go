package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func timeTravel() definition {
	return definition{Doc{
		Name:       "time-travel",
		Guarantee:  "Shows a hazard: a client that moves between API servers and reads with resourceVersion=0 sees time go backwards while the etcd member of one of them is isolated.",
		Source:     "Kubernetes API concepts (resource versions); Automated HA master deployment (caching)",
		NeedsFault: true,
	}, judgeTimeTravel}
}

// judgeTimeTravel looks at the reads of the one client that moves. How far back it
// went is the time since it had seen the newer version for the first time, at most: so
// much older the older one is at least.
func judgeTimeTravel(m *matter) finding {
	from, to := m.fault.effect(), m.fault.healed.Called
	firstSeen := map[string]record.Op{} // by key and revision
	newest := map[string]record.Op{}    // by key
	reads, back := 0, 0
	var older, newer *record.Op
	var far time.Duration
	for _, o := range m.run.Ops {
		op := o.V
		if op.Purpose != "moving-read" || op.Outcome != record.OK || !op.Found || op.Call < from || op.Return > to {
			continue
		}
		reads++
		if _, ok := firstSeen[op.Key+" "+op.Revision]; !ok {
			firstSeen[op.Key+" "+op.Revision] = op
		}
		before, ok := newest[op.Key]
		if !ok || newerRead(op, before) {
			newest[op.Key] = op
			continue
		}
		if !newerRead(before, op) {
			continue
		}
		back++
		// The version after the one that was read, as far as the client knows.
		next := before
		for _, seen := range firstSeen {
			if seen.Key == op.Key && newerRead(seen, op) && seen.Return < next.Return {
				next = seen
			}
		}
		if d := time.Duration(op.Call - next.Return); d > far {
			older, newer, far = &op, &next, d
		}
	}
	switch {
	case reads < 2:
		return inconclusive("%s of a client that moves between API servers answered during the %s", plural(reads, "read"), m.fault.what())
	case older == nil:
		return inconclusive("in %d reads during the %s, a client that moved between API servers saw no time go backwards, so the hazard was not seen", reads, m.fault.what())
	}
	return passed("A client that moved between API servers and read with resourceVersion=0 saw time go backwards %d times in %d reads, by %s at most: it read version %s of %s through %s, and version %s through %s that long after it.",
		back, reads, short(far), newer.Revision, newer.Key, newer.Entrance, older.Revision, older.Entrance).
		took(far).shows(describe(*newer), describe(*older))
}
