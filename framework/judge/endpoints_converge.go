package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsConverge() definition {
	return definition{Doc{
		Name:       "endpoints-converge",
		Guarantee:  "Within the bound after healing, Endpoints and EndpointSlice of default/kubernetes hold exactly the addresses of the API servers that no other fault keeps down, through every entrance, and stay so.",
		Source:     "Automated HA master deployment; apiserver-count fix proposal",
		NeedsFault: true, NeedsBound: true,
	}, judgeEndpointsConverge}
}

// seenToStay is for how long a list must be seen after the healing at least. It is read
// once a second, and scenarios go on two seconds after they saw what they waited for.
const seenToStay = time.Second

func judgeEndpointsConverge(m *matter) finding {
	healed := m.fault.healEffect()
	e := m.expectedAt(healed)
	worst, changed := time.Duration(0), false // since the injection
	var brief, seen []string
	for _, c := range chains(m.run, e.hit...) {
		var wrong, last *record.Timed[record.Endpoints]
		settled := record.Nanos(-1) // since when it holds what it must
		for i := range c.states {
			s := &c.states[i]
			if s.At > e.end {
				break
			}
			last = s
			switch {
			case !e.met(s.V.Addresses):
				wrong, settled = s, -1
				changed = changed || s.At >= m.fault.injected.Called
			case settled < 0:
				settled = max(s.At, healed)
			}
		}
		if last == nil || last.At < healed {
			continue // nothing was seen of it after the healing
		}
		watched, took := span(healed, last.At), span(healed, settled)
		switch {
		case settled < 0 && watched > m.bound.Limit:
			return failed("default/kubernetes must hold exactly the API servers %s within %s after the %s was healed: %s still held %s after %s.",
				e, m.bound, m.fault.what(), c, bracketed(wrong.V.Addresses), short(watched)).took(watched).rests(healed, last.At)
		case settled < 0:
			brief = append(brief, c.String())
		case took > m.bound.Limit:
			return failed("default/kubernetes must hold exactly the API servers %s within %s after the %s was healed: %s did after %s.",
				e, m.bound, m.fault.what(), c, short(took)).took(took).rests(healed, settled)
		case watched >= seenToStay:
			seen = append(seen, c.String())
			worst = max(worst, took)
		}
	}
	if len(brief) > 0 {
		return inconclusive("%s did not hold exactly the API servers when it was last read, less than %s after the %s was healed", and(brief), m.bound, m.fault.what())
	}
	// Those that no fault hits answer; the one that is back may take its time.
	ask := m.apiServers(append(e.hit, m.fault.nodes()...)...)
	for _, source := range sources {
		through := func(entrance string) bool { return slices.Contains(seen, source+" through "+entrance) }
		if !slices.ContainsFunc(m.run.Meta.Entrances, through) {
			return inconclusive("nothing was read of the %s of default/kubernetes for %s after the %s was healed", source, short(seenToStay), m.fault.what())
		}
		for _, entrance := range ask {
			if !through(entrance) {
				return inconclusive("nothing was read of the %s of default/kubernetes through %s later than %s after the %s was healed",
					source, entrance, short(seenToStay), m.fault.what())
			}
		}
	}
	how := fmt.Sprintf("held exactly the API servers %s again %s after the %s was healed, within %s", e, short(worst), m.fault.what(), m.bound)
	if !changed {
		how = fmt.Sprintf("still held exactly the API servers %s when the %s was healed", e, m.fault.what())
	}
	return passed("Endpoints and EndpointSlice of default/kubernetes %s, and from then on, by %s.", how, and(seen)).took(worst)
}
