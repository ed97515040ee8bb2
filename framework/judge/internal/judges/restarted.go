package judges

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var restarted = Definition{Doc{
	Name:       "restarted",
	Guarantee:  "A component that was killed is started again by the process watcher of its machine within the bound, and stays up.",
	Source:     "High Availability Kubernetes Clusters (admin guide), reliable nodes",
	NeedsFault: true, NeedsBound: true, Coarser: true, HealsItself: true,
}, judgeRestarted}

func judgeRestarted(m *facts.Case) Finding {
	f := m.Fault.Injected
	host := cmp.Or(f.Node, f.Host)
	if f.Component == "" || host == "" {
		return Inconclusive("the fault (%s) did not hit a component", m.Fault.What())
	}
	if f.Has(record.EffectDown) {
		return Inconclusive("the fault (%s) kept the component down, so its process watcher could not start it again", m.Fault.What())
	}
	effect := m.Fault.Effect()
	changed := facts.NextInPlace(m.Run, host, effect) // which restarts the component
	end := min(m.Run.EndAt, changed)                  // when the next fault or change began
	again := end                                      // when the next one began that may have hit the component
	for _, other := range m.Faults {
		if other == m.Fault || other.Injected == nil || other.Injected.Called <= effect {
			continue
		}
		end = min(end, other.Injected.Called)
		if hit := other.Injected; hit.Component == "" || hit.Component == f.Component || slices.Contains(hit.Group, f.Component) {
			again = min(again, other.Injected.Called)
		}
	}
	down := facts.Endless    // since when the new process has been gone
	silent := facts.Endless  // since when the machine does not report
	var unknown record.Nanos // the same when it reported the new process
	exits := 0               // how often the component had exited before the fault
	var old, started, lost *record.Timed[record.ProcessState]
	for i := range m.Run.Processes {
		p := &m.Run.Processes[i]
		if p.V.Node != host || p.V.Component != f.Component || p.At > again {
			continue
		}
		if p.V.Error != "" {
			silent = min(silent, p.At)
			continue
		}
		switch {
		case p.At < f.Called:
			if old != nil && old.V.PID > 0 && !facts.SameLife(old.V, p.V) {
				exits++
			}
			old = p
		case started == nil && old != nil && p.V.PID > 0 && !facts.SameLife(old.V, p.V):
			started, unknown = p, silent
		case started != nil && lost == nil && p.At <= end && !facts.SameLife(started.V, p.V):
			lost = p
		}
		if started != nil && p.V.PID > 0 {
			down = facts.Endless
		} else if started != nil && !p.V.Standby {
			down = min(down, p.At)
		}
		silent = facts.Endless
	}
	// A fault on something else may delay the start, so that it proves only what was in time.
	if started != nil && started.At > end && text.Span(effect, started.At) > m.Bound.Limit {
		started = nil
	}
	if started == nil {
		end = min(end, max(silent, effect))
	}
	if old != nil {
		exits = max(exits, old.V.Restarts) // also before the record began
	}
	switch waited := text.Span(effect, end); {
	case old == nil || old.V.PID == 0:
		return Inconclusive("%s was not seen to run on %s before the fault", f.Component, host)
	case started == nil && exits > 0:
		return Inconclusive("%s on %s was not started again for %s; it had exited before (%s), and process watchers back off from processes that exit often",
			f.Component, host, text.Short(waited), text.Plural(exits, "time"))
	case started == nil && waited > m.Bound.Limit:
		return Failed("%s on %s must be started again within %s of the %s: %s later it was still not running.", f.Component, host, m.Bound, m.Fault.What(), text.Short(waited)).
			Took(waited).Rests(effect, end)
	case started == nil:
		return Inconclusive("%s on %s had not been started again when it was last checked, %s after the %s, which is less than the bound of %s",
			f.Component, host, text.Short(waited), m.Fault.What(), m.Bound)
	}
	took := max(0, text.Span(effect, started.At))
	switch {
	case took > m.Bound.Limit && text.Span(effect, unknown) <= m.Bound.Limit:
		return Inconclusive("%s on %s had been started again when its machine reported again %s, but the machine had reported nothing since a failed query %s, so the start may have been in time",
			f.Component, host, text.At(started.At), text.At(unknown))
	case took > m.Bound.Limit && exits > 0:
		return Inconclusive("%s on %s was started again only after %s; it had exited before (%s), and process watchers back off from processes that exit often",
			f.Component, host, text.Short(took), text.Plural(exits, "time"))
	case took > m.Bound.Limit:
		return Failed("%s on %s must be started again within %s of the %s: it was started only after %s.", f.Component, host, m.Bound, m.Fault.What(), text.Short(took)).
			Took(took).Rests(effect, started.At)
	case lost != nil:
		return Failed("%s on %s must stay up once it is started again: it was %s after the %s, and %s it %s.",
			f.Component, host, text.Short(took), m.Fault.What(), text.At(lost.At), facts.Fate(lost.V)).Took(took).Rests(effect, lost.At)
	case down < again && text.Span(down, again) > m.Bound.Limit:
		return Inconclusive("%s on %s was started again after %s, exited again %s, while another fault was active, and was not started again for %s",
			f.Component, host, text.Short(took), text.At(down), text.Short(text.Span(down, again)))
	}
	stayed := ""
	if watched := text.Span(started.At, end); watched >= m.Run.Meta.Settings["M"] {
		stayed = ", and stayed up for " + text.Short(watched) // until the next fault
	}
	return Passed("%s on %s was started again %s after the %s, within %s%s.", f.Component, host, text.Short(took), m.Fault.What(), m.Bound, stayed).
		Took(took)
}
