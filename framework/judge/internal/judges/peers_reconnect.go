package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var peersReconnect = Definition{Doc{
	Name:       "peers-reconnect",
	Guarantee:  "Once a network fault is healed, every pair of etcd peers is connected again within the bound plus the time that the fault lasted, 60 s at most.",
	Source:     "etcd#18052, etcd#19143; RFC 6298, 5.5",
	NeedsFault: true, NeedsBound: true,
}, judgePeersReconnect}

// longestReconnection is the catalogue's limit for any recovery.
const longestReconnection = time.Minute

// judgePeersReconnect checks the time until no connection between nodes waits for a
// retransmission, and none of etcd's is missing, against the recovery limit. etcd's connections have no timeout of their own, so
// TCP determines the wait: each one is twice the previous one (RFC 6298, 5.5), and the wait in
// progress when the network is healed lasts about as long as all before it.
func judgePeersReconnect(m *facts.Case) Finding {
	healed := m.Fault.Healed.Called
	lasted := text.Span(m.Fault.Injected.Called, healed)
	bound := m.Bound.Plus("outage", lasted)
	if bound.Limit > longestReconnection {
		bound.Formula, bound.Limit = "60s at most, "+bound.Formula, longestReconnection
	}
	var seen *record.Timed[record.Steady]
	next := m.UntilNext(healed)
	for i, s := range m.Run.Steadies {
		if s.V.Phase == record.SteadyPart && s.V.Part == record.PartConnections && s.At >= healed && s.At <= next {
			seen = &m.Run.Steadies[i]
			break
		}
	}
	if seen == nil {
		return bounded(bound)(Inconclusive("the record does not say when the connections between nodes were back after the healing of the %s", m.Fault.What()))
	}
	took, first := seen.V.Took, seen.V.First
	if first > 0 {
		took = text.Span(healed, seen.V.Since) + took
	} else { // older records
		first = m.Fault.HealEffect()
	}
	f := Passed("All pairs of etcd peers were connected again %s after the healing of the %s, which had lasted %s, within %s. Until then, losing the leader could have left etcd unable to elect another.",
		text.Short(took), m.Fault.What(), text.Short(lasted), bound)
	switch {
	case took > bound.Limit && seen.V.OK && took <= text.Span(healed, first)+m.Run.Meta.Settings["M"]:
		f = Inconclusive("the connections between nodes were back when they were first checked, %s after the call to heal the %s, longer than %s: how long before that they were back is not known",
			text.Short(text.Span(healed, first)), m.Fault.What(), bound)
	case took > bound.Limit && seen.V.OK:
		f = Failed("All pairs of etcd peers must be connected again within %s of the healing of the %s: it took %s.",
			bound, m.Fault.What(), text.Short(took)).Rests(healed, healed+record.Nanos(took))
	case took > bound.Limit:
		f = Failed("All pairs of etcd peers must be connected again within %s of the healing of the %s: after %s these were not: %s.",
			bound, m.Fault.What(), text.Short(took), facts.Problems(seen.V)).Rests(healed, healed+record.Nanos(took))
	case !seen.V.OK:
		f = Inconclusive("connections between nodes were observed for only %s after the healing, less than %s, and were not all back: %s", text.Short(took), bound, facts.Problems(seen.V))
	}
	return bounded(bound)(f.Took(took))
}
