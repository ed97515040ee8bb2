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
// between two heartbeats before any fault, 0 without any.
func (m *Case) HeartbeatGap(node string, from, healed, to record.Nanos) (worst GapOf, before time.Duration) {
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
func (m *Case) WorkersAt(at record.Nanos) []record.Object {
	return slices.DeleteFunc(StandingAt(m.Run, at).Of(record.ObjectNode, ""), func(o record.Object) bool { return m.WasNode(o.Name) })
}

// Places are the times in which some node could take pods: without one the scheduler can bind
// none.
type Places struct {
	shown bool // the record shows nodes
	times []Interval
}

// Places returns when some node could take pods: a worker node or an open control-plane node, that is
// ready and has no taint for its health.
func (m *Case) Places() (p Places) {
	var s record.Standing
	for at, o := range record.Each(m.Run.Objects) {
		if o.Kind != record.ObjectNode {
			continue
		}
		s.Take(o)
		place := slices.ContainsFunc(s.Of(record.ObjectNode, ""), func(o record.Object) bool {
			return o.Node.Ready == "True" && !o.Node.Tainted && (o.Node.Open || !m.WasNode(o.Name))
		})
		if !p.shown {
			at = 0 // it was so before it was seen
		}
		p.shown = true
		n := len(p.times)
		switch last := n > 0 && p.times[n-1].To == Endless; {
		case place && !last:
			p.times = append(p.times, Interval{at, Endless})
		case !place && last:
			p.times[n-1].To = at
		}
	}
	return p
}

// From returns when, at a time or later, there is a place for as long as given without a break, or
// until the record ends; false if there never is. If the record shows no node, there always is.
func (p Places) From(at record.Nanos, lasting time.Duration) (record.Nanos, bool) {
	if !p.shown {
		return at, true
	}
	for _, t := range p.times {
		if from := max(at, t.From); from < t.To && text.Span(from, t.To) >= lasting {
			return from, true
		}
	}
	return 0, false
}
