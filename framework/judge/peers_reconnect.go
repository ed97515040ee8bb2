package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func peersReconnect() definition {
	return definition{Doc{
		Name:       "peers-reconnect",
		Guarantee:  "Once a network fault is healed, every pair of etcd peers is connected again within the bound plus the time that the fault lasted, 60 s at most.",
		Source:     "etcd#18052, etcd#19143; RFC 6298, 5.5",
		NeedsFault: true, NeedsBound: true,
	}, judgePeersReconnect}
}

// longestReconnection is the catalogue's limit for any recovery.
const longestReconnection = time.Minute

// judgePeersReconnect holds the time until no connection between nodes waits to send again
// against the recovery limit. etcd gives its connections no time-out of their own, so that
// it is TCP that ends the wait: each one is twice the one before (RFC 6298, 5.5), and the
// one that has begun when the network is whole lasts about as long as all before it.
func judgePeersReconnect(m *matter) finding {
	healed := m.fault.healed.Called
	lasted := span(m.fault.injected.Called, healed)
	bound := m.bound.plus("outage", lasted)
	if bound.Limit > longestReconnection {
		bound.Formula, bound.Limit = "60s at most, "+bound.Formula, longestReconnection
	}
	var seen *record.Timed[record.Steady]
	next := m.untilNext(healed)
	for i, s := range m.run.Steadies {
		if s.V.Phase == record.SteadyPart && s.V.Part == record.PartConnections && s.At >= healed && s.At <= next {
			seen = &m.run.Steadies[i]
			break
		}
	}
	if seen == nil {
		f := inconclusive("the record does not say when the connections between nodes were back after the healing of the %s", m.fault.what())
		f.bound = &bound
		return f
	}
	took := seen.V.Took
	f := passed("All pairs of etcd peers were connected again %s after the healing of the %s, which had lasted %s, within %s. Until then, the loss of the leader could have left etcd without another one.",
		short(took), m.fault.what(), short(lasted), bound)
	switch {
	case took > bound.Limit && seen.V.OK && took <= span(healed, m.fault.healEffect())+m.run.Meta.Settings["M"]:
		// Connections are followed from then on.
		f = inconclusive("the connections between nodes were back when the healing of the %s was proven, which took %s, longer than %s: when they were back before that is not known",
			m.fault.what(), short(span(healed, m.fault.healEffect())), bound)
	case took > bound.Limit && seen.V.OK:
		f = failed("All pairs of etcd peers must be connected again within %s of the healing of the %s: it took %s.",
			bound, m.fault.what(), short(took)).rests(healed, healed+record.Nanos(took))
	case took > bound.Limit:
		f = failed("All pairs of etcd peers must be connected again within %s of the healing of the %s: after %s TCP still waited to send again from %s.",
			bound, m.fault.what(), short(took), problems(seen.V)).rests(healed, healed+record.Nanos(took))
	case !seen.V.OK:
		f = inconclusive("connections between nodes were looked at for %s after the healing only, less than %s, and were not all back: %s", short(took), bound, problems(seen.V))
	}
	f = f.took(took)
	f.bound = &bound
	return f
}
