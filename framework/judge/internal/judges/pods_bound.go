package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var podsBound = Definition{Doc{
	Name:       "pods-bound",
	Guarantee:  "When the active scheduler is lost under a stream of pods, each pod is bound to a node within the bound, once, and none is forgotten. The time counts from when a node can take it.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true,
}, coordinated(judgePodsBound)}

// podWait is the time in which a pod was not bound.
type podWait struct {
	pod      *facts.PodLife
	from, to record.Nanos
}

func (w podWait) took() time.Duration { return text.Span(w.from, w.to) }

func judgePodsBound(m *facts.Case) Finding {
	effect, until := m.LastEffect(), m.NextFault(m.Fault.HealEffect())
	lives, places := facts.PodLives(m.Run), m.Places()
	inGap := 0
	var waiting *facts.PodLife
	var worst, unplaced podWait // the longest
	// waited returns how long a pod was not bound although a node could take it; ok is false if
	// none that could was seen in that time.
	waited := func(p *facts.PodLife) (from, to record.Nanos, ok bool) {
		from, to = p.Created, p.Bound
		if p.Bound == 0 || p.Bound > until {
			to = until
		}
		if from < effect && to > effect {
			from = effect // the fault held it up from then on
		}
		place, ok := places.From(from, m.Bound.Limit)
		if ok = ok && place <= to; ok {
			from = place
		}
		return from, max(from, to), ok
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
		longest := &worst
		from, to, placed := waited(p)
		if !placed {
			longest = &unplaced
		}
		if w := (podWait{p, from, to}); longest.pod == nil || w.took() > longest.took() {
			*longest = w
		}
		// A pod created after the healing and just before the end shows nothing.
		justCame := p.Created >= m.Fault.Healed.Called && text.Span(p.Created, until) < m.Run.Meta.Settings["M"]
		if (p.Bound == 0 || p.Bound > until) && !justCame && waiting == nil {
			waiting = p
		}
	}
	if inGap == 0 {
		return Inconclusive("no pod was created during the %s", m.Fault.What())
	}
	took := worst.took()
	switch {
	case took > m.Bound.Limit && worst.pod.Bound != 0:
		return Failed("Each pod must be bound within %s of the %s or of its creation: %s, created at %s, was bound only after %s.",
			m.Bound, m.Fault.What(), worst.pod.Name, text.When(worst.pod.Created), text.Short(took)).Took(took).Rests(worst.from, worst.to)
	case took > m.Bound.Limit:
		how := "was not bound"
		if !worst.pod.Seen {
			how = "was never seen, although its creation was acknowledged, and was not bound"
		}
		return Failed("No pod may be forgotten, and each must be bound within %s of the %s or of its creation: %s, created at %s, %s after %s.",
			m.Bound, m.Fault.What(), worst.pod.Name, text.When(worst.pod.Created), how, text.Short(took)).Took(took).Rests(worst.from, worst.to)
	case unplaced.pod != nil && unplaced.took() > m.Bound.Limit:
		return Inconclusive("%s, created at %s, waited for %s, and in that time no node that could take it was seen ready for as long as the bound of %s",
			unplaced.pod.Name, text.When(unplaced.pod.Created), text.Short(unplaced.took()), m.Bound)
	case waiting != nil:
		from, to, _ := waited(waiting)
		return Inconclusive("pod %s was not bound when it was last seen, %s after its creation or the %s, which is less than the bound of %s",
			waiting.Name, text.Short(text.Span(from, to)), m.Fault.What(), m.Bound)
	}
	lives = slices.DeleteFunc(lives, func(p *facts.PodLife) bool { return p.Bound == 0 })
	audited := len(slices.DeleteFunc(slices.Clone(lives), func(p *facts.PodLife) bool { return len(p.Bindings) == 0 }))
	return Passed("Each of %d pods was bound once, %d of them created during the %s; the longest took %s (%s).",
		len(lives), inGap, m.Fault.What(), text.Short(took), m.Bound).Took(took).
		Shows(fmt.Sprintf("the audit log has the bindings of %d of them, each once", audited))
}
