package facts

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// GapOf is a period in which no heartbeat of a node was seen.
type GapOf struct {
	Node     string
	From, To record.Nanos
}

// HeartbeatGap returns the longest gap that overlaps the time of the fault, and the longest one
// between two heartbeats before any fault, 0 if there is none.
func (m *Matter) HeartbeatGap(node string, from, healed, to record.Nanos) (worst GapOf, before time.Duration) {
	first, last := m.NextFault(0), record.Nanos(-1)
	add := func(at record.Nanos) {
		switch {
		case last < 0 || last >= healed:
		case at <= first:
			before = max(before, text.Span(last, at))
		case at <= from: // another fault may have caused it
		case text.Span(last, at) > text.Span(worst.From, worst.To):
			worst = GapOf{node, last, at}
		}
	}
	for at, o := range record.Each(m.Run.Objects) {
		if o.Kind != record.ObjectHeartbeat || o.Name != node || o.Gone || at > to {
			continue
		}
		add(at)
		last = at
	}
	add(to)
	return worst, before
}

// WorkersAt returns the nodes of the API at a time, without control-plane nodes: a fault may cut
// those off.
func (m *Matter) WorkersAt(at record.Nanos) []record.Object {
	return slices.DeleteFunc(StandingAt(m.Run, at).Of(record.ObjectNode, ""), func(o record.Object) bool { return m.WasNode(o.Name) })
}
