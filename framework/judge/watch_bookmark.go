package judge

import "fmt"

func watchBookmark() definition {
	const must = "A bookmark must come after all changes up to its version"
	return definition{Doc{
		Name:      "watch-bookmark",
		Invariant: "HA-INV-007",
		Lasting:   true,
		Guarantee: "A bookmark (etcd: a progress notification) comes after every change up to its version and before every later one, and never goes back; " +
			"the one that ends a streaming list's initial events comes after exactly the state of its version, which is as new as was asked for.",
		Source: "KEP-956 (watch bookmarks); KEP-3157 (streaming lists); " + sourceEtcd + " (bookmarkable)",
	}, func(m *matter) finding {
		return m.watches(must, "watch with a bookmark", hasBookmark, func(s *stream) []breach {
			breaches := s.wrongBookmarks()
			if s.watch.Initial {
				breaches = append(append(breaches, s.begins()...), s.staleBegin()...)
			}
			return breaches
		})
	}}
}

func hasBookmark(s *stream) bool {
	for _, m := range s.messages {
		if m.bookmark() {
			return true
		}
	}
	return false
}

func (s *stream) wrongBookmarks() []breach {
	var breaches []breach
	top, covered := uint64(0), s.base // what was shown, and what a bookmark covers
	last := -1                        // the last bookmark
	for i, m := range s.messages {
		switch {
		case !m.bookmark():
			if last >= 0 && s.live(i) && m.version <= covered && s.index[m.id()] == i && i >= s.begin {
				b := s.messages[last]
				breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s, and %s showed version %s of %s",
					s.name(), b.Revision, at(b.Seen), at(m.Seen), m.Revision, m.Key), s.changeOf(m)))
			}
		case m.version < top:
			breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s, when it was at version %d", s.name(), m.Revision, at(m.Seen), top)))
		default:
			breaches = append(breaches, s.notCovered(i, covered)...)
			last, covered = i, max(covered, m.version)
		}
		top = max(top, m.version)
	}
	return breaches
}

// notCovered finds a change after one version that bookmark i stands for and that the
// watch never showed.
func (s *stream) notCovered(i int, after uint64) []breach {
	if after == 0 && s.from() == 0 {
		return nil // where the watch began is not known
	}
	m := s.messages[i]
	for _, e := range s.timeline.between(s.scope(), after, m.version) {
		if _, ok := s.index[e.versionOf]; !ok {
			return []breach{s.breachAt(i, fmt.Sprintf("%s gave a bookmark of version %s %s without having shown %s", s.name(), m.Revision, at(m.Seen), e.describe()), e.keyChange)}
		}
	}
	return nil
}
