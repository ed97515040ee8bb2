package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func podsBound() Definition {
	return Definition{verdict.Doc{
		Name:       "pods-bound",
		Guarantee:  "When the active scheduler is lost under a stream of pods, each pod is bound to a node within the bound, once, and none is forgotten. The time counts from when a node can take it.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgePodsBound}
}

func judgePodsBound(m *facts.Matter) Finding {
	effect, until := m.LastEffect(), m.NextFault(m.Fault.HealEffect())
	lives := facts.PodLives(m.Run)
	inGap := 0
	var worst, waiting *facts.PodLife
	waited := func(p *facts.PodLife) (from, to record.Nanos) {
		from, to = p.Created, p.Bound
		if p.Bound == 0 || p.Bound > until {
			to = until
		}
		if from < effect && to > effect {
			from = effect // the fault held it up from then on
		}
		if place, ok := m.PlaceFrom(from, m.Bound.Limit); !ok || place > to {
			from = to
		} else {
			from = place
		}
		return from, max(from, to)
	}
	for _, p := range lives {
		if len(p.Bindings) > 1 {
			return Failed("Each pod must be bound once: the binding of %s was acknowledged %d times.", p.Name, len(p.Bindings)).Shows(p.Bindings...)
		}
		if p.Moved != "" {
			return Failed("Each pod must be bound once: %s was bound to %s, and then to %s at %s.", p.Name, p.Node, p.Moved, p.MovedAt)
		}
		if p.Created < effect && p.Bound != 0 && p.Bound <= effect || p.Created > until {
			continue
		}
		if p.Created >= m.Fault.Effect() && p.Created < m.Fault.Healed.Called {
			inGap++
		}
		if p.Bound == 0 && p.Gone != 0 {
			return Failed("No pod may be forgotten: %s, created at %s, was gone at %s and had never been bound.", p.Name, text.When(p.Created), text.When(p.Gone)).Rests(effect, p.Gone)
		}
		from, to := waited(p)
		if worst == nil {
			worst = p
		}
		if f, t := waited(worst); facts.Since(from, to) > facts.Since(f, t) {
			worst = p
		}
		// A pod created after the healing and just before the end shows nothing.
		justCame := p.Created >= m.Fault.Healed.Called && facts.Since(p.Created, until) < m.Run.Meta.Settings["M"]
		if (p.Bound == 0 || p.Bound > until) && !justCame && waiting == nil {
			waiting = p
		}
	}
	if inGap == 0 {
		return Inconclusive("no pod was created during the %s", m.Fault.What())
	}
	from, to := waited(worst)
	took := facts.Since(from, to)
	switch {
	case took > m.Bound.Limit && worst.Bound != 0:
		return Failed("Each pod must be bound within %s of the %s or of its creation: %s, created at %s, was after %s.",
			m.Bound, m.Fault.What(), worst.Name, text.When(worst.Created), text.Short(took)).Took(took).Rests(from, to)
	case took > m.Bound.Limit:
		how := "was not"
		if !worst.Seen {
			how = "was never seen, though its creation was acknowledged, and was not"
		}
		return Failed("No pod may be forgotten, and each must be bound within %s of the %s or of its creation: %s, created at %s, %s after %s.",
			m.Bound, m.Fault.What(), worst.Name, text.When(worst.Created), how, text.Short(took)).Took(took).Rests(from, to)
	case waiting != nil:
		from, to := waited(waiting)
		return Inconclusive("pod %s was not bound when it was last seen, %s after its creation or the %s, which is less than the bound of %s",
			waiting.Name, text.Short(facts.Since(from, to)), m.Fault.What(), m.Bound)
	}
	lives = slices.DeleteFunc(lives, func(p *facts.PodLife) bool { return p.Bound == 0 })
	audited := len(slices.DeleteFunc(slices.Clone(lives), func(p *facts.PodLife) bool { return len(p.Bindings) == 0 }))
	return Passed("Each of %d pods was bound once, %d of them created during the %s; the longest took %s (%s).",
		len(lives), inGap, m.Fault.What(), text.Short(took), m.Bound).Took(took).
		Shows(fmt.Sprintf("the audit log has the bindings of %d of them, each once", audited))
}
