package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func backendReturned() definition {
	return definition{Doc{
		Name:       "backend-returned",
		Guarantee:  "The load balancer, by its own word, uses an API server that is back within the bound, and goes on to use it.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgeBackendReturned}
}

func judgeBackendReturned(m *matter) finding {
	node := m.fault.node()
	called, back := m.fault.healed.Called, m.fault.healEffect()
	end := m.untilNext(back)
	told := false
	silent := endless        // since when the balancer does not tell
	var unknown record.Nanos // the same when it told that the API server is used
	var before, up, lost *record.Timed[record.Backend]
	for i := range m.run.Backends {
		b := &m.run.Backends[i]
		if b.V.Missing != "" {
			return notApplicable("The load balancer does not tell which API servers it uses: %s.", b.V.Missing)
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
		silent = endless
	}
	switch {
	case !slices.Contains(m.run.Meta.Entrances, "balancer"):
		return notApplicable("The cluster has no load balancer.")
	case !told:
		return inconclusive("the load balancer told nothing of a backend %q", node)
	case before == nil || before.V.Up:
		return inconclusive("the load balancer was not seen to have given %s up before it came back, so its return cannot be judged", node)
	}
	if up == nil {
		end = min(end, max(silent, back))
		waited := span(back, end)
		if waited <= m.bound.Limit {
			return inconclusive("the load balancer did not use %s again when it last told, %s after it was back, which is less than the bound of %s",
				node, short(waited), m.bound)
		}
		return failed("The load balancer must use an API server that is back within %s: it did not use %s for %s.", m.bound, node, short(waited)).
			took(waited).rests(back, end)
	}
	// The balancer's own word is nearer to the moment than the next look at it.
	when := up.At
	if up.V.Since > before.At && up.V.Since < up.At {
		when = up.V.Since
	} else if span(back, up.At) > m.bound.Limit && span(back, unknown) <= m.bound.Limit {
		return inconclusive("the load balancer used %s when it told again %s, but told nothing since a failed look %s, so that it may have been in time", node, at(up.At), at(unknown))
	}
	// It may be used before the proof that it is back is there.
	took := max(0, time.Duration(when-back))
	switch {
	case took > m.bound.Limit:
		return failed("The load balancer must use an API server that is back within %s: it used %s after %s.", m.bound, node, short(took)).
			took(took).rests(back, when)
	case lost != nil:
		return failed("The load balancer must go on to use an API server that is back: it used %s %s after that was back, and gave it up %s (%s).",
			node, short(took), at(lost.At), lost.V.Check).rests(back, lost.At)
	}
	return passed("The load balancer used %s %s after it was back, within %s, and went on to.", node, short(took), m.bound).took(took)
}
