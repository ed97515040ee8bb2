package judge

import "fmt"

func watchUnique() definition {
	const must = "A watch must not show a change twice"
	return definition{Doc{
		Name:      "watch-unique",
		Invariant: "HA-INV-005",
		Lasting:   true,
		Guarantee: "No change comes twice on a watch, nor on the watch that goes on from it.",
		Source:    sourceEtcd + " (unique); " + sourceAPI,
	}, func(m *matter) finding {
		return m.watches(must, "watch that showed a change", hasEvents, func(s *stream) []breach {
			breaches := s.repetitions()
			if s.from() > 0 && s.previous != nil {
				breaches = append(breaches, s.repeatsOf(s.previous)...)
			}
			return breaches
		})
	}}
}

func (s *stream) repetitions() []breach {
	var breaches []breach
	for i, m := range s.messages {
		if m.bookmark() || s.index[m.id()] == i {
			continue
		}
		first := s.index[m.id()]
		b := s.breachAt(i, fmt.Sprintf("%s showed version %s of %s %s and again %s", s.name(), m.Revision, m.Key, at(s.messages[first].Seen), at(m.Seen)), s.changeOf(m))
		b.spans = append(b.spans, s.spans(first)...)
		breaches = append(breaches, b)
	}
	return breaches
}

// repeatsOf finds what an earlier watch of the chain showed, and what was not asked
// for again: the version to go on from was already past it.
func (s *stream) repeatsOf(earlier *stream) []breach {
	var breaches []breach
	for i, m := range s.messages {
		if m.bookmark() || m.version > s.from() {
			continue
		}
		for p, left := earlier, chainLimit; p != nil && left > 0; p, left = p.previous, left-1 {
			first, ok := p.index[m.id()]
			if !ok {
				continue
			}
			b := s.breachAt(i, fmt.Sprintf("%s, which goes on from version %s, showed version %s of %s again, which watch %s had shown %s",
				s.name(), s.watch.From, m.Revision, m.Key, p.watch.ID, at(p.messages[first].Seen)), s.changeOf(m))
			b.spans = append(b.spans, p.spans(first)...)
			breaches = append(breaches, b)
			break
		}
	}
	return breaches
}

// chainLimit ends the walk through a chain of watches that goes in circles.
const chainLimit = 10_000
