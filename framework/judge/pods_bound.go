package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func podsBound() definition {
	return definition{Doc{
		Name:       "pods-bound",
		Guarantee:  "When the active scheduler is lost under a stream of pods, each pod is bound to a node within the bound, once, and none is forgotten.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgePodsBound}
}

func judgePodsBound(m *matter) finding {
	effect, until := m.lastEffect(), m.nextFault(m.fault.healEffect())
	lives := podLives(m.run)
	inGap := 0
	var worst, waiting *podLife
	waited := func(p *podLife) (from, to record.Nanos) {
		from, to = p.created, p.bound
		if p.bound == 0 || p.bound > until {
			to = until
		}
		if from < effect && to > effect {
			from = effect // the fault held it up from then on
		}
		return from, max(from, to)
	}
	for _, p := range lives {
		if len(p.bindings) > 1 {
			return failed("Each pod must be bound once: the binding of %s was acknowledged %d times.", p.name, len(p.bindings)).shows(p.bindings...)
		}
		if p.moved != "" {
			return failed("Each pod must be bound once: %s was bound to %s, and then to %s at %s.", p.name, p.node, p.moved, p.movedAt)
		}
		if p.created < effect && p.bound != 0 && p.bound <= effect || p.created > until {
			continue
		}
		if p.created >= m.fault.effect() && p.created < m.fault.healed.Called {
			inGap++
		}
		if p.bound == 0 && p.gone != 0 {
			return failed("No pod may be forgotten: %s, created at %s, was gone at %s and had never been bound.", p.name, when(p.created), when(p.gone)).rests(effect, p.gone)
		}
		from, to := waited(p)
		if worst == nil {
			worst = p
		}
		if f, t := waited(worst); since(from, to) > since(f, t) {
			worst = p
		}
		// One that came after the healing and just before the end shows nothing.
		justCame := p.created >= m.fault.healed.Called && since(p.created, until) < m.run.Meta.Settings["M"]
		if (p.bound == 0 || p.bound > until) && !justCame && waiting == nil {
			waiting = p
		}
	}
	if inGap == 0 {
		return inconclusive("no pod was created during the %s", m.fault.what())
	}
	from, to := waited(worst)
	took := since(from, to)
	switch {
	case took > m.bound.Limit && worst.bound != 0:
		return failed("Each pod must be bound within %s of the %s or of its creation: %s, created at %s, was after %s.",
			m.bound, m.fault.what(), worst.name, when(worst.created), short(took)).took(took).rests(from, to)
	case took > m.bound.Limit:
		how := "was not"
		if !worst.seen {
			how = "was never seen, though its creation was acknowledged, and was not"
		}
		return failed("No pod may be forgotten, and each must be bound within %s of the %s or of its creation: %s, created at %s, %s after %s.",
			m.bound, m.fault.what(), worst.name, when(worst.created), how, short(took)).took(took).rests(from, to)
	case waiting != nil:
		from, to := waited(waiting)
		return inconclusive("pod %s was not bound when it was last looked at, %s after its creation or the %s, which is less than the bound of %s",
			waiting.name, short(since(from, to)), m.fault.what(), m.bound)
	}
	lives = slices.DeleteFunc(lives, func(p *podLife) bool { return p.bound == 0 })
	audited := len(slices.DeleteFunc(slices.Clone(lives), func(p *podLife) bool { return len(p.bindings) == 0 }))
	return passed("Each of %d pods was bound once, %d of them created during the %s; the longest took %s (%s).",
		len(lives), inGap, m.fault.what(), short(took), m.bound).took(took).
		shows(fmt.Sprintf("the audit log has the bindings of %d of them, each once", audited))
}
