package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// failStale is the finding for a quorum read that was older than a write
// acknowledged before it was called.
func failStale(m *facts.Matter, read, newer *record.Op) Finding {
	return Failed("No quorum read may be stale: through %s, %s was read as %s %s, although %s had been written through %s and acknowledged %s, before the read was called (during the %s).",
		read.Entrance, read.Key, text.Quoted(read.Value, read.Found), text.At(read.Call), facts.WrittenAs(newer), newer.Entrance, text.At(newer.Return), m.Fault.What()).
		Shows(text.Describe(*newer), text.Describe(*read)).
		exhibits(facts.Exhibit("A quorum read returns what had been replaced", facts.OpSpan(*newer), facts.Blamed(facts.OpSpan(*read))))
}
