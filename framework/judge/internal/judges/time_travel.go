package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var timeTravel = Definition{Doc{
	Name:       "time-travel",
	Guarantee:  "Shows a hazard: a client that moves between API servers and reads with resourceVersion=0 sees time go backwards while the etcd member of one of them is isolated.",
	Source:     "Kubernetes API concepts (resource versions); Automated HA master deployment (caching)",
	NeedsFault: true,
}, judgeTimeTravel}

// judgeTimeTravel checks the reads of the one client that moves between API servers. How far back
// it went is at most the time since it first saw the newer version: the older one is at least
// that old.
func judgeTimeTravel(m *facts.Case) Finding {
	if m.EtcdAlone(m.Fault.Node()) {
		return noneBeside(m.Fault.Node())
	}
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	firstSeen := map[string]record.Op{} // by key and revision
	newest := map[string]record.Op{}    // by key
	reads, back := 0, 0
	var older, newer *record.Op
	var far time.Duration
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != "moving-read" || op.Outcome != record.OK || !op.Found || op.Call < from || op.Return > to {
			continue
		}
		reads++
		if _, ok := firstSeen[op.Key+" "+op.Revision]; !ok {
			firstSeen[op.Key+" "+op.Revision] = op
		}
		before, ok := newest[op.Key]
		if !ok || facts.NewerRead(op, before) {
			newest[op.Key] = op
			continue
		}
		if !facts.NewerRead(before, op) {
			continue
		}
		back++
		// The version after the one read, as far as the client knows.
		next := before
		for _, seen := range firstSeen {
			if seen.Key == op.Key && facts.NewerRead(seen, op) && seen.Return < next.Return {
				next = seen
			}
		}
		if d := time.Duration(op.Call - next.Return); d > far {
			older, newer, far = &op, &next, d
		}
	}
	switch {
	case reads < 2:
		return Inconclusive("%s of a client that moves between API servers %s answered during the %s", text.Plural(reads, "read"), text.Was(reads), m.Fault.What())
	case older == nil:
		return Inconclusive("in %d reads during the %s, a client that moved between API servers did not see time go backwards, so the hazard was not seen", reads, m.Fault.What())
	}
	return Passed("A client that moved between API servers and read with resourceVersion=0 saw time go backwards %d times in %d reads, by %s at most: it read version %s of %s through %s, and version %s through %s that long after it.",
		back, reads, text.Short(far), newer.Revision, newer.Key, newer.Entrance, older.Revision, older.Entrance).
		Took(far).Shows(text.Describe(*newer), text.Describe(*older))
}
