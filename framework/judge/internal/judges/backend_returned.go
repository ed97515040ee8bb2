package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var backendReturned = Definition{Doc{
	Name:       "backend-returned",
	Guarantee:  "By its own report, the load balancer uses an API server again within the bound after its return, and continues to use it.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true, Killed: true,
}, judgeBackendReturned}

func judgeBackendReturned(m *facts.Case) Finding {
	node := m.Fault.Node()
	called, back := m.Fault.Healed.Called, m.Fault.HealEffect()
	end := m.UntilNext(back)
	told := false
	silent := facts.Endless  // since when the balancer does not report
	var unknown record.Nanos // the same when it reported that the API server is used
	var before, up, lost *record.Timed[record.Backend]
	for i := range m.Run.Backends {
		b := &m.Run.Backends[i]
		if b.V.Missing != "" {
			return notApplicable("The load balancer does not report which API servers it uses: %s.", b.V.Missing)
		}
		if b.V.Error != "" && b.At <= end {
			silent = min(silent, b.At)
		}
		if b.V.Name != node || b.V.Error != "" || b.At > end {
			continue
		}
		told = true
		switch {
		case b.At < called:
			before = b
		case up == nil && b.V.Up:
			up, unknown = b, silent
		case up != nil && lost == nil && !b.V.Up:
			lost = b
		}
		silent = facts.Endless
	}
	switch {
	case !slices.Contains(m.Run.Meta.Entrances, "balancer"):
		return notApplicable("The cluster has no load balancer.")
	case !told:
		return Inconclusive("the load balancer reported nothing about a backend %q", node)
	case before == nil || before.V.Up:
		return Inconclusive("the load balancer was not seen to stop using %s before it came back, so its return cannot be judged", node)
	}
	if up == nil && m.StandsBy(node, called, end) {
		return notApplicable("The API server on %s is on standby after its return: the balancer sends clients to one API server at a time.", node)
	}
	if up == nil {
		end = min(end, max(silent, back))
		waited := text.Span(back, end)
		if waited <= m.Bound.Limit {
			return Inconclusive("the load balancer did not use %s again when it last reported, %s after it was back, which is less than the bound of %s",
				node, text.Short(waited), m.Bound)
		}
		return Failed("The load balancer must use an API server again within %s of its return: it did not use %s for %s.", m.Bound, node, text.Short(waited)).
			Took(waited).Rests(back, end)
	}
	// The balancer's own report is closer to the moment than the next check.
	when := up.At
	if up.V.Since > before.At && up.V.Since < up.At {
		when = up.V.Since
	} else if text.Span(back, up.At) > m.Bound.Limit && text.Span(back, unknown) <= m.Bound.Limit {
		return Inconclusive("the load balancer used %s when it reported again %s, but had reported nothing since a failed query %s, so it may have been in time", node, text.At(up.At), text.At(unknown))
	}
	// The balancer may use it before there is proof that it is back.
	took := max(0, time.Duration(when-back))
	switch {
	case took > m.Bound.Limit:
		return Failed("The load balancer must use an API server again within %s of its return: it used %s after %s.", m.Bound, node, text.Short(took)).
			Took(took).Rests(back, when)
	case lost != nil:
		return Failed("The load balancer must continue to use an API server after its return: it used %s %s after that, and stopped using it %s (%s).",
			node, text.Short(took), text.At(lost.At), lost.V.Check).Rests(back, lost.At)
	}
	return Passed("The load balancer used %s again %s after its return, within %s, and continued to use it.", node, text.Short(took), m.Bound).Took(took)
}
