package judge

import (
	"fmt"
	"slices"
)

func watchResumable() definition {
	return definition{Doc{
		Name:      "watch-resumable",
		Invariant: "HA-INV-006",
		Lasting:   true,
		Guarantee: "A watch from a version, such as one that goes on after a break through another entrance, shows all that came after it and nothing from before it. " +
			"A check about a fault takes a watch that did go on through another API server, since the one that was hit broke it or did not take it up again.",
		Source: sourceAPI + "; " + sourceEtcd + " (resumable)",
	}, judgeWatchResumable}
}

func judgeWatchResumable(m *matter) finding {
	const must = "A watch from a version must go on right there"
	f := m.watches(must, "watch from a version", func(s *stream) bool { return s.from() > 0 }, func(s *stream) []breach {
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
	if f.verdict == Pass && m.fault != nil && !m.resumedElsewhere() {
		return inconclusive("no watch that broke with the %s, or was not taken up again meanwhile, went on through another API server and showed something", m.fault.what())
	}
	return f
}

// resumedElsewhere tells whether a watch went on through another API server than the
// one that was hit, after that one had broken it off or refused to take it up while the
// fault lasted, and showed something.
func (m *matter) resumedElsewhere() bool {
	node, from, to := m.fault.node(), m.fault.injected.Called, m.fault.healed.Called
	address := m.address(node)
	streams := m.collections().streams
	dropped := map[string]bool{} // by ID
	for _, s := range streams {
		switch w := s.watch; {
		case w.Entrance != node && !slices.Contains(w.Server, address):
		case !s.opened && w.Seen >= from && w.Seen < to:
			dropped[w.Resumes] = true
		case s.opened && s.ended != nil && brokeDown(s.ended) && s.ended.Seen >= from && s.ended.Seen < to:
			dropped[w.ID] = true
		}
	}
	return slices.ContainsFunc(streams, func(s *stream) bool {
		w := s.watch
		return s.opened && w.Resumes != "" && dropped[w.Resumes] && w.Called >= from && w.Entrance != node && !slices.Contains(w.Server, address) && len(s.messages) > 0
	})
}
