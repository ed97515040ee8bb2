package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var nodesReady = Definition{Doc{
	Name: "nodes-ready",
	Guarantee: "No worker node turns NotReady because of the fault, and no node's heartbeats are missing for as long as the bound: " +
		"the time after which the controller manager considers a node lost (--node-monitor-grace-period).",
	Source:     "Automated HA master deployment (kubelet)",
	NeedsFault: true, NeedsBound: true,
}, judgeNodesReady}

// judgeNodesReady checks the heartbeats too: if the active controller manager was lost with the
// same node, no instance marks nodes until another one has taken over.
func judgeNodesReady(m *facts.Case) Finding {
	from, healed := m.Fault.Effect(), m.Fault.HealEffect()
	to := m.NextFault(healed)
	nodes := m.WorkersAt(from)
	if len(nodes) == 0 {
		return Inconclusive("the record shows no worker node when the %s took effect", m.Fault.What())
	}
	var worst facts.GapOf
	for _, n := range nodes {
		if n.Node.Ready != "True" {
			return Inconclusive("%s was not ready before the %s: Ready was %s", n.Name, m.Fault.What(), n.Node.Ready)
		}
		g, before := m.HeartbeatGap(n.Name, from, healed, to)
		switch {
		case before <= 0:
			return Inconclusive("the record does not show two heartbeats of %s before the %s", n.Name, m.Fault.What())
		case before > m.Bound.Limit/2:
			return Inconclusive("%s was silent for %s before the %s as well: its heartbeats are too rare for a bound of %s", n.Name, text.Short(before), m.Fault.What(), m.Bound)
		}
		if text.Span(g.From, g.To) > text.Span(worst.From, worst.To) {
			worst = g
		}
	}
	for at, o := range record.Each(m.Run.Objects) {
		if o.Kind == record.ObjectNode && at > from && at <= to && !o.Gone && o.Node.Ready != "True" && !m.WasNode(o.Name) {
			gap, _ := m.HeartbeatGap(o.Name, from, healed, at)
			return Failed("Heartbeats of worker nodes must arrive despite the %s: the condition Ready of %s became %s at %s.",
				m.Fault.What(), o.Name, o.Node.Ready, text.When(at)).Took(text.Span(gap.From, gap.To)).Rests(from, at)
		}
	}
	took := text.Span(worst.From, worst.To)
	switch lasted := text.Span(from, m.Fault.Healed.Called); {
	case took > m.Bound.Limit && took-blind(m, worst.From, worst.To) <= m.Bound.Limit:
		return Inconclusive("no heartbeat of %s was seen for %s (%s to %s), nor any other object for %s of that: it may not have been observed",
			worst.Node, text.Short(took), text.When(worst.From), text.When(worst.To), text.Short(blind(m, worst.From, worst.To)))
	case took > m.Bound.Limit:
		return Failed("Heartbeats of worker nodes must arrive despite the %s, with pauses of %s at most: those of %s were missing for %s (%s to %s).",
			m.Fault.What(), m.Bound, worst.Node, text.Short(took), text.When(worst.From), text.When(worst.To)).Took(took).Rests(worst.From, worst.To)
	case to <= healed:
		return Inconclusive("the record shows no state of any object after the %s was healed, so nothing can be said about worker nodes", m.Fault.What())
	case lasted < m.Bound.Limit:
		return Inconclusive("the %s lasted %s, which is less than the bound of %s", m.Fault.What(), text.Short(lasted), m.Bound)
	}
	return Passed("All %d worker nodes stayed ready through the %s; no node's heartbeats were missing for longer than %s (limit %s).",
		len(nodes), m.Fault.What(), text.Short(took), m.Bound).Took(took)
}

// blind returns the longest time between from and to in which no object was seen.
func blind(m *facts.Case, from, to record.Nanos) (longest time.Duration) {
	last := from
	for i := range m.Run.Objects {
		if at := m.Run.Objects[i].At; at > from && at <= to {
			longest, last = max(longest, text.Span(last, at)), at
		}
	}
	return max(longest, text.Span(last, to))
}
