package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var watchUnique = Definition{Doc{
	Name:      "watch-unique",
	Invariant: "HA-INV-005",
	Lasting:   true,
	Guarantee: "No change comes twice on a watch, nor on the watch that continues from it.",
	Source:    sourceEtcd + " (unique); " + sourceAPI,
}, watches("A watch must not show a change twice", "watch that showed a change", hasEvents, func(s *facts.Stream) []facts.Breach {
	breaches := repetitions(s)
	if s.From() > 0 && s.Previous != nil {
		breaches = append(breaches, repeatsOf(s, s.Previous)...)
	}
	return breaches
})}

func repetitions(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	for i, m := range s.Messages {
		if m.Bookmark() || s.Index[m.ID()] == i {
			continue
		}
		first := s.Index[m.ID()]
		b := s.BreachAt(i, fmt.Sprintf("%s showed version %s of %s %s and again %s", s.Name(), m.Revision, m.Key, text.At(s.Messages[first].Seen), text.At(m.Seen)), s.ChangeOf(m))
		b.Spans = append(b.Spans, s.Spans(first)...)
		breaches = append(breaches, b)
	}
	return breaches
}

// repeatsOf finds what an earlier watch of the chain showed and this one did not request again:
// the version to continue from was already past it.
func repeatsOf(s *facts.Stream, earlier *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	for i, m := range s.Messages {
		if m.Bookmark() || m.Number > s.From() {
			continue
		}
		for p, left := earlier, chainLimit; p != nil && left > 0; p, left = p.Previous, left-1 {
			first, ok := p.Index[m.ID()]
			if !ok {
				continue
			}
			b := s.BreachAt(i, fmt.Sprintf("%s, which continues from version %s, showed version %s of %s again, which watch %s had shown %s",
				s.Name(), s.Watch.From, m.Revision, m.Key, p.Watch.ID, text.At(p.Messages[first].Seen)), s.ChangeOf(m))
			b.Spans = append(b.Spans, p.Spans(first)...)
			breaches = append(breaches, b)
			break
		}
	}
	return breaches
}

// chainLimit stops the walk through a circular chain of watches.
const chainLimit = 10_000
