package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func nodesReady() definition {
	return definition{Doc{
		Name: "nodes-ready",
		Guarantee: "No worker node turns NotReady by the fault, and the heartbeat of none is missing for as long as the bound: " +
			"the time after which the controller manager takes a node for lost (--node-monitor-grace-period).",
		Source:     "Automated HA master deployment (kubelet)",
		NeedsFault: true, NeedsBound: true,
	}, judgeNodesReady}
}

// judgeNodesReady looks at the heartbeats too: where the active controller manager was
// lost with the same node, nobody marks anything until another one has taken over.
func judgeNodesReady(m *matter) finding {
	from, healed := m.fault.effect(), m.fault.healEffect()
	to := m.nextFault(healed)
	nodes := m.workersAt(from)
	if len(nodes) == 0 {
		return inconclusive("the record shows no worker node when the %s took effect", m.fault.what())
	}
	var worst gapOf
	for _, n := range nodes {
		if n.Node.Ready != "True" {
			return inconclusive("%s was not ready before the %s: Ready was %s", n.Name, m.fault.what(), n.Node.Ready)
		}
		g, before := m.heartbeatGap(n.Name, from, healed, to)
		switch {
		case before <= 0:
			return inconclusive("the record does not show two heartbeats of %s before the %s", n.Name, m.fault.what())
		case before > m.bound.Limit/2:
			return inconclusive("%s was silent for %s before the %s as well: its heartbeats are too rare for a bound of %s", n.Name, short(before), m.fault.what(), m.bound)
		}
		if since(g.from, g.to) > since(worst.from, worst.to) {
			worst = g
		}
	}
	for i := range m.run.Objects {
		at, o := m.run.Objects[i].At, &m.run.Objects[i].V
		if o.Kind == record.ObjectNode && at > from && at <= to && !o.Gone && o.Node.Ready != "True" && !m.wasNode(o.Name) {
			return failed("Heartbeats of worker nodes must get through in spite of the %s: the condition Ready of %s became %s at %s.",
				m.fault.what(), o.Name, o.Node.Ready, when(at)).rests(from, at)
		}
	}
	took := since(worst.from, worst.to)
	switch lasted := since(from, m.fault.healed.Called); {
	case took > m.bound.Limit && took-m.blind(worst.from, worst.to) <= m.bound.Limit:
		return inconclusive("no heartbeat of %s was seen for %s (%s to %s), nor any other object for %s of that: nobody may have looked",
			worst.node, short(took), when(worst.from), when(worst.to), short(m.blind(worst.from, worst.to)))
	case took > m.bound.Limit:
		return failed("Heartbeats of worker nodes must get through in spite of the %s, and may be missing for %s: that of %s was for %s (%s to %s).",
			m.fault.what(), m.bound, worst.node, short(took), when(worst.from), when(worst.to)).took(took).rests(worst.from, worst.to)
	case to <= healed:
		return inconclusive("the record shows no state of any object after the %s was healed, so that nothing can be said of its worker nodes", m.fault.what())
	case lasted < m.bound.Limit:
		return inconclusive("the %s lasted %s, which is less than the bound of %s", m.fault.what(), short(lasted), m.bound)
	}
	return passed("All %d worker nodes stayed ready through the %s; the heartbeat of none was missing for longer than %s (limit %s).",
		len(nodes), m.fault.what(), short(took), m.bound).took(took)
}

// blind returns the longest time between from and to in which no object was seen.
func (m *matter) blind(from, to record.Nanos) (longest time.Duration) {
	last := from
	for i := range m.run.Objects {
		if at := m.run.Objects[i].At; at > from && at <= to {
			longest, last = max(longest, since(last, at)), at
		}
	}
	return max(longest, since(last, to))
}
