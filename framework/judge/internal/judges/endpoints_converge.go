package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var endpointsConverge = Definition{Doc{
	Name:       "endpoints-converge",
	Guarantee:  "Within the bound after healing, Endpoints and EndpointSlice of default/kubernetes hold exactly the addresses of the API servers that no other fault keeps down, as read through every entrance, and continue to.",
	Source:     "Automated HA master deployment; apiserver-count fix proposal",
	NeedsFault: true, NeedsBound: true,
}, judgeEndpointsConverge}

// seenToStay is how long a list must be observed after the healing. It is read once a second, and
// scenarios continue two seconds after their condition held.
const seenToStay = time.Second

func judgeEndpointsConverge(m *facts.Case) Finding {
	healed := m.Fault.HealEffect()
	e := m.ExpectedAt(healed)
	worst, changed := time.Duration(0), false // since the injection
	var brief, seen []string
	for _, c := range facts.Chains(m.Run, e.Hit...) {
		s := e.Settling(c, healed, e.End)
		changed = changed || s.Wrong != nil && s.Wrong.At >= m.Fault.Injected.Called
		if s.Last == nil || s.Last.At < healed {
			continue // nothing was seen of it after the healing
		}
		if f := notInTime(m, e, c, s, healed, "the "+m.Fault.What()+" was healed"); f != nil {
			return *f
		}
		switch {
		case s.Since < 0:
			brief = append(brief, c.String())
		case text.Span(healed, s.Last.At) >= seenToStay:
			seen = append(seen, c.String())
			worst = max(worst, text.Span(healed, s.Since))
		}
	}
	if len(brief) > 0 {
		return Inconclusive("%s did not hold exactly the API servers when it was last read, less than %s after the %s was healed", text.And(brief), m.Bound, m.Fault.What())
	}
	// Those that no fault hits answer; the healed one may take its time.
	ask := m.APIServers(append(e.Hit, m.Fault.Nodes()...)...)
	for _, source := range facts.Sources {
		through := func(entrance string) bool { return slices.Contains(seen, source+" through "+entrance) }
		if !slices.ContainsFunc(m.Run.Meta.Entrances, through) {
			return Inconclusive("no state of the %s of default/kubernetes was read for %s after the %s was healed", source, text.Short(seenToStay), m.Fault.What())
		}
		for _, entrance := range ask {
			if !through(entrance) {
				return Inconclusive("no state of the %s of default/kubernetes was read through %s later than %s after the %s was healed",
					source, entrance, text.Short(seenToStay), m.Fault.What())
			}
		}
	}
	how := fmt.Sprintf("held exactly the API servers %s again %s after the %s was healed, within %s", e, text.Short(worst), m.Fault.What(), m.Bound)
	if !changed {
		how = fmt.Sprintf("still held exactly the API servers %s when the %s was healed", e, m.Fault.What())
	}
	return Passed("Endpoints and EndpointSlice of default/kubernetes %s, and from then on, by %s.", how, text.And(seen)).Took(worst)
}
