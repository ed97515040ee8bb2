package judge

import (
	"cmp"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func restarted() definition {
	return definition{Doc{
		Name:       "restarted",
		Guarantee:  "A component that was killed is started again by the process watcher of its machine within the bound, and stays up.",
		Source:     "High Availability Kubernetes Clusters (admin guide), reliable nodes",
		NeedsFault: true, NeedsBound: true,
	}, judgeRestarted}
}

func judgeRestarted(m *matter) finding {
	f := m.fault.injected
	host := cmp.Or(f.Node, f.Host)
	if f.Component == "" || host == "" {
		return inconclusive("the fault (%s) did not hit a component", m.fault.what())
	}
	if (f.Name == "kill" || f.Name == "stop") && f.Params["restart"] != "true" {
		return inconclusive("the fault (%s) kept the component down, so that its process watcher could not start it again", m.fault.what())
	}
	effect := m.fault.effect()
	end := m.run.EndAt
	for _, other := range m.faults {
		if other != m.fault && other.injected != nil && other.injected.Called > effect {
			end = min(end, other.injected.Called)
		}
	}
	silent := endless        // since when the machine does not tell
	var unknown record.Nanos // the same when it told of the new process
	ended := 0               // how often the component had ended before
	var old, started, lost *record.Timed[record.ProcessState]
	for i := range m.run.Processes {
		p := &m.run.Processes[i]
		if p.V.Node != host || p.V.Component != f.Component || p.At > end {
			continue
		}
		if p.V.Error != "" {
			silent = min(silent, p.At)
			continue
		}
		switch {
		case p.At < f.Called:
			if old != nil && old.V.PID > 0 && !sameLife(old.V, p.V) {
				ended++
			}
			old = p
		case started == nil && old != nil && p.V.PID > 0 && !sameLife(old.V, p.V):
			started, unknown = p, silent
		case started != nil && lost == nil && !sameLife(started.V, p.V):
			lost = p
		}
		silent = endless
	}
	if started == nil {
		end = min(end, max(silent, effect))
	}
	switch waited := span(effect, end); {
	case old == nil || old.V.PID == 0:
		return inconclusive("%s was not seen to run on %s before the fault", f.Component, host)
	case started == nil && ended > 0:
		return inconclusive("%s on %s was not started again for %s; it had ended before (%d times in this record), and process watchers back off from what ends often",
			f.Component, host, short(waited), ended)
	case started == nil && waited > m.bound.Limit:
		return failed("%s on %s must be started again within %s of the %s: it was not for %s.", f.Component, host, m.bound, m.fault.what(), short(waited)).
			took(waited).rests(effect, end)
	case started == nil:
		return inconclusive("%s on %s had not been started again when it was last looked at, %s after the %s, which is less than the bound of %s",
			f.Component, host, short(waited), m.fault.what(), m.bound)
	}
	took := max(0, span(effect, started.At))
	switch {
	case took > m.bound.Limit && span(effect, unknown) <= m.bound.Limit:
		return inconclusive("%s on %s had been started again when its machine told again %s, but that told nothing since a failed look %s, so that it may have been in time",
			f.Component, host, at(started.At), at(unknown))
	case took > m.bound.Limit && ended > 0:
		return inconclusive("%s on %s was started again only after %s; it had ended before (%d times in this record), and process watchers back off from what ends often",
			f.Component, host, short(took), ended)
	case took > m.bound.Limit:
		return failed("%s on %s must be started again within %s of the %s: it was after %s.", f.Component, host, m.bound, m.fault.what(), short(took)).
			took(took).rests(effect, started.At)
	case lost != nil:
		return failed("%s on %s must stay up once it is started again: it was %s after the %s, and %s it %s.",
			f.Component, host, short(took), m.fault.what(), at(lost.At), fate(lost.V)).took(took).rests(effect, lost.At)
	}
	return passed("%s on %s was started again %s after the %s, within %s, and stayed up.", f.Component, host, short(took), m.fault.what(), m.bound).
		took(took)
}
