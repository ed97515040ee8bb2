package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var staleSerializableRead = Definition{Doc{
	Name:       "stale-serializable-read",
	Guarantee:  "Shows a hazard: a serializable read on an isolated etcd member returns old data, which also proves that the isolation was real.",
	Source:     "API server HA proposal, section 1",
	NeedsFault: true,
}, judgeStaleSerializableRead}

func judgeStaleSerializableRead(m *facts.Case) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	node := m.Fault.Node()
	known := facts.NewWriteLog(m.Run)
	reads, answered := 0, 0
	var oldest, newer *record.Op
	var age time.Duration
	for _, op := range record.Each(m.Run.Ops) {
		if op.API != facts.APIEtcd || op.Consistency != "serializable" || op.Type != record.OpGet || op.Purpose != "stale-read" ||
			op.Entrance != node || op.Call < from || op.Call >= to {
			continue
		}
		reads++
		if op.Outcome != record.OK || op.Return >= to {
			continue
		}
		answered++
		// Since the first write that it misses, the answer is out of date.
		for _, w := range known.Of(op).Writes {
			if w.Entrance == node || w.Outcome != record.OK || w.Return >= op.Call || !known.Older(op, w) {
				continue
			}
			if a := time.Duration(op.Call - w.Return); a > age {
				oldest, newer, age = &op, &w, a
			}
		}
	}
	switch {
	case reads == 0:
		return Inconclusive("no serializable read was tried on %s while it was isolated", node)
	case answered == 0:
		return Inconclusive("none of %d serializable reads on %s was answered while it was isolated", reads, node)
	case oldest == nil:
		return Inconclusive("none of %d serializable reads on %s returned old data, so the hazard was not seen", answered, node)
	}
	return Passed("A serializable read on the isolated etcd member of %s returned %s for %s, %s after %s had been acknowledged through %s: such reads can be stale for as long as the isolation lasts.",
		node, text.Quoted(oldest.Value, oldest.Found), oldest.Key, text.Short(age), facts.WrittenAs(newer), newer.Entrance).
		Took(age).Shows(text.Describe(*newer), text.Describe(*oldest))
}
