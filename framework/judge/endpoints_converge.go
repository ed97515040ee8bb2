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
	want, end := m.apiServersAt(healed), min(m.run.EndAt, nextChange(m.run, healed))
	var down []string // nodes that other faults hit all the while
	for _, other := range m.faults {
		switch {
		case other == m.fault || other.injected == nil:
		case other.injected.Called > healed:
			end = min(end, other.injected.Called)
		case other.healed != nil && other.healed.Called > healed:
			down = append(append(down, other.injected.Node), other.injected.Nodes...)
			end = min(end, other.healed.Called)
		}
	}
	want = slices.DeleteFunc(want, func(address string) bool {
		return slices.ContainsFunc(down, func(node string) bool { return m.address(node) == address })
	})
	worst := time.Duration(0)
	var brief, seen []string
	for _, c := range chains(m.run, down...) {
		var wrong, last *record.Timed[record.Endpoints]
		settled := record.Nanos(-1) // since when it holds what it must
		for i := range c.states {
			s := &c.states[i]
			if s.At > end {
				break
			}
			last = s
			switch {
			case !sameSet(s.V.Addresses, want):
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
					bracketed(want), m.bound, m.fault.what(), c, short(took)).took(took).rests(healed, settled)
			}
		case span(healed, last.At) > m.bound.Limit:
			return failed("default/kubernetes must hold exactly the API servers %s within %s after the %s was healed: %s still held %s after %s.",
				bracketed(want), m.bound, m.fault.what(), c, bracketed(wrong.V.Addresses), short(span(healed, last.At))).
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
		bracketed(want), short(worst), m.fault.what(), m.bound).took(worst)
}
