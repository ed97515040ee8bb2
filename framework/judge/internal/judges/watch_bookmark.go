package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var watchBookmark = Definition{Doc{
	Name:      "watch-bookmark",
	Invariant: "HA-INV-007",
	Lasting:   true,
	Guarantee: "A bookmark (etcd: a progress notification) comes after every change up to its version and before every later one, and never goes back; " +
		"the one that ends a streaming list's initial events comes after exactly the state of its version, which is as new as was asked for.",
	Source: "KEP-956 (watch bookmarks); KEP-3157 (streaming lists); " + sourceEtcd + " (bookmarkable)",
}, watches("A bookmark must come after all changes up to its version", "watch with a bookmark", hasBookmark, func(s *facts.Stream) []facts.Breach {
	breaches := wrongBookmarks(s)
	if s.Watch.Initial {
		breaches = append(append(breaches, s.Begins()...), s.StaleBegin()...)
	}
	return breaches
})}

func hasBookmark(s *facts.Stream) bool {
	return slices.ContainsFunc(s.Messages, facts.Message.Bookmark)
}

func wrongBookmarks(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	top, covered := uint64(0), s.Base // what was shown, and what a bookmark covers
	last := -1                        // the last bookmark
	for i, m := range s.Messages {
		switch {
		case !m.Bookmark():
			if last >= 0 && s.Live(i) && m.Number <= covered && s.Index[m.ID()] == i && i >= s.Begin {
				b := s.Messages[last]
				breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s, and %s showed version %s of %s",
					s.Name(), b.Revision, text.At(b.Seen), text.At(m.Seen), m.Revision, m.Key), s.ChangeOf(m)))
			}
		case m.Number < top:
			breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s, when it was at version %d", s.Name(), m.Revision, text.At(m.Seen), top)))
		default:
			breaches = append(breaches, notCovered(s, i, covered)...)
			last, covered = i, max(covered, m.Number)
		}
		top = max(top, m.Number)
	}
	return breaches
}

// notCovered finds a change after one version that bookmark i covers and that the watch never
// showed.
func notCovered(s *facts.Stream, i int, after uint64) []facts.Breach {
	if after == 0 && s.From() == 0 {
		return nil // the start of the watch is not known
	}
	m := s.Messages[i]
	for _, e := range s.Timeline.Between(s.Scope(), after, m.Number) {
		if _, ok := s.Index[e.VersionOf]; !ok {
			return []facts.Breach{s.BreachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s without having shown %s", s.Name(), m.Revision, text.At(m.Seen), e.Describe()), e.KeyChange)}
		}
	}
	return nil
}
