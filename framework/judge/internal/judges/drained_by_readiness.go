package judges

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var drainedByReadiness = Definition{Doc{
	Name:       "drained-by-readiness",
	Guarantee:  "By its own report, the load balancer takes out an API server that is stopped gracefully before that server stops listening.",
	Source:     "k0s#6299, openshift/installer#4012",
	NeedsFault: true, Killed: true,
}, judgeDrainedByReadiness}

// toTheSecond is the precision of the time at which a balancer changed a backend's state; see
// record.Backend.
const toTheSecond = record.Nanos(time.Second)

func judgeDrainedByReadiness(m *facts.Case) Finding {
	node := m.Fault.Node()
	called, healed := m.Fault.Injected.Called, m.Fault.Healed.Called
	var used, out *record.Backend
	var seen record.Nanos // when the balancer said so
	for i := range m.Run.Backends {
		b := &m.Run.Backends[i]
		switch {
		case b.V.Missing != "":
			return notApplicable("The load balancer does not report which API servers it uses: %s.", b.V.Missing)
		case b.V.Name != node || b.V.Error != "" || b.At >= healed:
		case b.At < called:
			used = &b.V
		case out == nil && !b.V.Up:
			out, seen = &b.V, b.At
		}
	}
	switch {
	case !slices.Contains(m.Run.Meta.Entrances, "balancer"):
		return notApplicable("The cluster has no load balancer.")
	case used == nil:
		return Inconclusive("the load balancer reported nothing about a backend %q before the %s", node, m.Fault.What())
	case used.Standby:
		return notApplicable("The API server on %s was on standby: the balancer sends clients to one API server at a time.", node)
	case !used.Up:
		return Inconclusive("the load balancer did not use the API server on %s before the %s", node, m.Fault.What())
	}
	accepted, refused := listened(m, node, called, healed)
	listening := "the last new connection that it accepted was made " + text.Short(text.Span(called, accepted)) + " after the call"
	switch {
	case accepted == 0 || refused == 0:
		return Inconclusive("the record does not show a new connection to the API server on %s that was accepted after the call for the %s, and a later one that was not", node, m.Fault.What())
	case out == nil:
		return Failed("When an API server is stopped, the load balancer must stop using it before it closes its port: %s was still in use when it was started again, %s after the call for the %s, and %s.",
			node, text.Short(text.Span(called, healed)), m.Fault.What(), listening).Rests(called, healed)
	}
	at := min(cmp.Or(out.Since, seen), seen)
	took := text.Span(called, at)
	switch {
	case at > refused+toTheSecond:
		return Failed("When an API server is stopped, the load balancer must stop using it before it closes its port: %s was taken out %s after the call for the %s, and %s; one made after %s was not (%s).",
			node, text.Short(took), m.Fault.What(), listening, text.Short(text.Span(called, refused)), quotedCheck(out)).Took(took).Rests(called, at)
	case at > accepted:
		return Inconclusive("the load balancer took %s out %s after the call for the %s, and %s; one made after %s was not: it is not known which came first",
			node, text.Short(took), m.Fault.What(), listening, text.Short(text.Span(called, refused)))
	}
	return Passed("The load balancer took %s out %s after the call for the %s (%s), while it still listened: %s.", node, text.Short(took), m.Fault.What(), quotedCheck(out), listening).Took(took)
}

// listened returns when the last accepted new connection to a node's own API server was made, and
// when the first failed attempt after that was made; 0 if there is none.
func listened(m *facts.Case, node string, from, to record.Nanos) (accepted, refused record.Nanos) {
	for _, p := range m.Run.Probes {
		if p.V.Entrance == node && !p.V.Reused && p.V.Start >= from && p.V.Start < to && p.V.Status > 0 {
			accepted = max(accepted, p.V.Start)
		}
	}
	for _, p := range m.Run.Probes {
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
