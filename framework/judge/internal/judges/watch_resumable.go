package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
)

var watchResumable = Definition{Doc{
	Name:      "watch-resumable",
	Invariant: "HA-INV-006",
	Lasting:   true,
	Guarantee: "A watch from a version, such as one that continues after a break through another entrance, shows all that came after it and nothing from before it. " +
		"A check about a fault requires a watch that continued through another API server because the one that was hit broke it or did not resume it.",
	Source: sourceAPI + "; " + sourceEtcd + " (resumable)",
}, judgeWatchResumable}

func judgeWatchResumable(m *facts.Case) Finding {
	f := watches("A watch from a version must continue right there", "watch from a version", func(s *facts.Stream) bool { return s.From() > 0 }, func(s *facts.Stream) []facts.Breach {
		var breaches []facts.Breach
		for i, m := range s.Messages {
			if !m.Bookmark() && m.Number <= s.From() {
				breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s, from version %s, showed version %s of %s, which is from before",
					s.Name(), s.Watch.From, m.Revision, m.Key), s.ChangeOf(m)))
			}
		}
		return append(breaches, s.LeftOutFirst()...)
	})(m)
	if f.Verdict == verdict.Pass && m.Fault != nil && !resumedElsewhere(m) {
		return Inconclusive("no watch that broke with the %s, or was not resumed meanwhile, continued through another API server and showed something", m.Fault.What())
	}
	return f
}

// resumedElsewhere reports whether a watch continued through an API server other than the one
// that was hit, after that one had closed it or refused to resume it while the fault lasted, and
// showed something.
func resumedElsewhere(m *facts.Case) bool {
	node, from, to := m.Fault.Node(), m.Fault.Injected.Called, m.Fault.Healed.Called
	address := m.Address(node)
	streams := m.Collections().Streams
	dropped := map[string]bool{} // by ID
	for _, s := range streams {
		switch w := s.Watch; {
		case w.Entrance != node && !slices.Contains(w.Server, address):
		case !s.Opened && w.Seen >= from && w.Seen < to:
			dropped[w.Resumes] = true
		case s.Opened && s.Ended != nil && facts.BrokeDown(s.Ended) && s.Ended.Seen >= from && s.Ended.Seen < to:
			dropped[w.ID] = true
		}
	}
	return slices.ContainsFunc(streams, func(s *facts.Stream) bool {
		w := s.Watch
		return s.Opened && w.Resumes != "" && dropped[w.Resumes] && w.Called >= from && w.Entrance != node && !slices.Contains(w.Server, address) && len(s.Messages) > 0
	})
}
