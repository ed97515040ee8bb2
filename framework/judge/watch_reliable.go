package judge

import "fmt"

func watchReliable() definition {
	const must = "A watch must leave no change out"
	return definition{Doc{
		Name:      "watch-reliable",
		Invariant: "HA-INV-005",
		Lasting:   true,
		Guarantee: "A watch shows every change of what it watches, from the version at which it begins to the last version that it shows or gives in a bookmark.",
		Source:    sourceAPI + "; " + sourceEtcd + " (reliable)",
	}, func(m *matter) finding {
		return m.watches(must, "watch", every, func(s *stream) []breach {
			var breaches []breach
			if !s.watch.Initial {
				breaches = s.begins()
			}
			if g := s.findGap(); g != nil {
				breaches = append(breaches, s.gapBreach(g, ""))
			}
			return breaches
		})
	}}
}

// gapBreach says what a watch left out; why is added to the name of the watch.
func (s *stream) gapBreach(g *omission, why string) breach {
	first, proof := g.missing[0], s.messages[g.proof]
	others := ""
	if n := len(g.missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d other changes", n)
	}
	b := s.breachAt(g.proof, fmt.Sprintf("%s%s left out %s%s, and was past it %s with %q", s.name(), why, first.describe(), others, at(proof.Seen), proof), first.keyChange)
	if g.proof == 0 {
		b.spans = append(b.spans, s.opening())
	}
	return b
}
