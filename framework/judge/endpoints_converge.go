package judge

import (
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

func judgeEndpointsConverge(m *matter) finding {
	healed := m.fault.healEffect()
	e := m.expectedAt(healed)
	worst := time.Duration(0)
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
			case settled < 0:
				settled = max(s.At, healed)
			}
		}
		switch {
		case last == nil || last.At < healed:
			continue // nothing was seen of it after the healing
		case settled >= 0:
			seen = append(seen, c.source)
			took := span(healed, settled)
			worst = max(worst, took)
			if took > m.bound.Limit {
				return failed("default/kubernetes must hold exactly the API servers %s within %s after the %s was healed: %s did after %s.",
					e, m.bound, m.fault.what(), c, short(took)).took(took).rests(healed, settled)
			}
		case span(healed, last.At) > m.bound.Limit:
			return failed("default/kubernetes must hold exactly the API servers %s within %s after the %s was healed: %s still held %s after %s.",
				e, m.bound, m.fault.what(), c, bracketed(wrong.V.Addresses), short(span(healed, last.At))).
				took(span(healed, last.At)).rests(healed, last.At)
		default:
			brief = append(brief, c.String())
		}
	}
	for _, source := range sources {
		if !slices.Contains(seen, source) && len(brief) == 0 {
			return inconclusive("nothing was read of the %s of default/kubernetes after the %s was healed", source, m.fault.what())
		}
	}
	if len(brief) > 0 {
		return inconclusive("%s did not hold exactly the API servers when it was last read, less than %s after the %s was healed", and(brief), m.bound, m.fault.what())
	}
	return passed("Endpoints and EndpointSlice of default/kubernetes held exactly the API servers %s again %s after the %s was healed, within %s, through every entrance.",
		e, short(worst), m.fault.what(), m.bound).took(worst)
}
