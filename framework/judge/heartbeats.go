package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// gapOf is a time in which no heartbeat of a node was seen.
type gapOf struct {
	node     string
	from, to record.Nanos
}

// heartbeatGap returns the longest one of those that touch the time of the fault, and
// how long the longest between two heartbeats before any fault was, 0 where there is none.
func (m *matter) heartbeatGap(node string, from, healed, to record.Nanos) (worst gapOf, before time.Duration) {
	first, last := m.nextFault(0), record.Nanos(-1)
	add := func(at record.Nanos) {
		switch {
		case last < 0 || last >= healed:
		case at <= first:
			before = max(before, since(last, at))
		case at <= from: // another fault may have caused it
		case since(last, at) > since(worst.from, worst.to):
			worst = gapOf{node, last, at}
		}
	}
	for i := range m.run.Objects {
		at, o := m.run.Objects[i].At, &m.run.Objects[i].V
		if o.Kind != record.ObjectHeartbeat || o.Name != node || o.Gone || at > to {
			continue
		}
		add(at)
		last = at
	}
	add(to)
	return worst, before
}

// workersAt returns the nodes of the API at a time, without the control plane's: a fault may
// take those from the network.
func (m *matter) workersAt(at record.Nanos) []record.Object {
	return slices.DeleteFunc(standingAt(m.run, at).Of(record.ObjectNode, ""), func(o record.Object) bool { return m.wasNode(o.Name) })
}
