package judge

import "fmt"

func watchResumable() definition {
	const must = "A watch from a version must go on right there"
	return definition{Doc{
		Name:      "watch-resumable",
		Guarantee: "A watch from a version, such as one that goes on after a break through another entrance, shows all that came after it and nothing from before it.",
		Source:    sourceAPI + "; " + sourceEtcd + " (resumable)",
	}, func(m *matter) finding {
		return m.watches(must, "watch from a version", func(s *stream) bool { return s.from() > 0 }, func(s *stream) []breach {
			var breaches []breach
			for i, m := range s.messages {
				if !m.bookmark() && m.version <= s.from() {
					breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s, from version %s, showed version %s of %s, which is from before",
						s.name(), s.watch.From, m.Revision, m.Key), s.changeOf(m)))
				}
			}
			if g := s.findGap(); g != nil && g.proof == 0 {
				breaches = append(breaches, s.gapBreach(g, s.goesOn()))
			}
			return breaches
		})
	}}
}

// goesOn says from where a watch goes on.
func (s *stream) goesOn() string {
	where := ", from version " + s.watch.From
	if s.previous != nil {
		where += fmt.Sprintf(" of watch %s through %s", s.previous.watch.ID, s.previous.watch.Entrance)
	}
	return where + ","
}
