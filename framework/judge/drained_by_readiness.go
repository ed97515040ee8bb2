package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func drainedByReadiness() definition {
	return definition{Doc{
		Name:       "drained-by-readiness",
		Guarantee:  "The load balancer, by its own word, takes an API server that is stopped gracefully out before that stops listening.",
		Source:     "k0s#6299, openshift/installer#4012",
		NeedsFault: true,
	}, judgeDrainedByReadiness}
}

// toTheSecond is how exactly the time is known at which a balancer changed its mind; see
// record.Backend.
const toTheSecond = record.Nanos(time.Second)

func judgeDrainedByReadiness(m *matter) finding {
	node := m.fault.node()
	called, healed := m.fault.injected.Called, m.fault.healed.Called
	var used, out *record.Backend
	var seen record.Nanos // when the balancer said so
	for i := range m.run.Backends {
		b := &m.run.Backends[i]
		switch {
		case b.V.Missing != "":
			return notApplicable("The load balancer does not tell which API servers it uses: %s.", b.V.Missing)
		case b.V.Name != node || b.V.Error != "" || b.At >= healed:
		case b.At < called:
			used = &b.V
		case out == nil && !b.V.Up:
			out, seen = &b.V, b.At
		}
	}
	switch {
	case !slices.Contains(m.run.Meta.Entrances, "balancer"):
		return notApplicable("The cluster has no load balancer.")
	case used == nil:
		return inconclusive("the load balancer told nothing of a backend %q before the %s", node, m.fault.what())
	case used.Standby:
		return notApplicable("The API server on %s was there to take over: clients of the balancer are sent to one API server at a time.", node)
	case !used.Up:
		return inconclusive("the load balancer did not use the API server on %s before the %s", node, m.fault.what())
	}
	accepted, refused := m.listened(node, called, healed)
	listening := "the last new connection that it accepted was made " + short(span(called, accepted)) + " after the call"
	switch {
	case accepted == 0 || refused == 0:
		return inconclusive("the record does not show a new connection to the API server on %s that was accepted after the call of the %s, and one after that which was not", node, m.fault.what())
	case out == nil:
		return failed("The load balancer must take an API server that is stopped out before that stops listening: it still used %s when that was started again, %s after the call of the %s, and %s.",
			node, short(span(called, healed)), m.fault.what(), listening).rests(called, healed)
	}
	at := min(cmp.Or(out.Since, seen), seen)
	took := span(called, at)
	switch {
	case at > refused+toTheSecond:
		return failed("The load balancer must take an API server that is stopped out before that stops listening: it took %s out %s after the call of the %s, and %s; one made after %s was not (%s).",
			node, short(took), m.fault.what(), listening, short(span(called, refused)), quotedCheck(out)).took(took).rests(called, at)
	case at > accepted:
		return inconclusive("the load balancer took %s out %s after the call of the %s, and %s; one made after %s was not: which was first cannot be told",
			node, short(took), m.fault.what(), listening, short(span(called, refused)))
	}
	return passed("The load balancer took %s out %s after the call of the %s (%s), while it still listened: %s.", node, short(took), m.fault.what(), quotedCheck(out), listening).took(took)
}

// listened returns when the last new connection to a node's own API server was made that
// was accepted, and when the first one after that was tried in vain; 0 where there is none.
func (m *matter) listened(node string, from, to record.Nanos) (accepted, refused record.Nanos) {
	for _, p := range m.run.Probes {
		if p.V.Entrance == node && !p.V.Reused && p.V.Start >= from && p.V.Start < to && p.V.Status > 0 {
			accepted = max(accepted, p.V.Start)
		}
	}
	for _, p := range m.run.Probes {
		if p.V.Entrance == node && !p.V.Reused && p.V.Start > accepted && p.V.Start < to && p.V.Status == 0 && !p.V.OK {
			if refused == 0 || p.V.Start < refused {
				refused = p.V.Start
			}
		}
	}
	return accepted, refused
}

func quotedCheck(b *record.Backend) string {
	return "its check said: " + cmp.Or(b.Check, "nothing")
}
