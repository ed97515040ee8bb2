package judge

import "fmt"

func watchAtomic() definition {
	const must = "etcd must send the changes of one revision together"
	return definition{Doc{
		Name:      "watch-atomic",
		Invariant: "HA-INV-005",
		Lasting:   true,
		Guarantee: "A watch of etcd gets all changes of one revision that it watches in one response.",
		Source:    sourceEtcd + " (atomic)",
	}, func(m *matter) finding {
		return m.watches(must, "watch of etcd that showed a change", etcdEvents, func(s *stream) []breach { return s.torn() })
	}}
}

func (s *stream) torn() []breach {
	var breaches []breach
	first := map[uint64]int{} // by revision
	for i, m := range s.messages {
		if m.bookmark() {
			continue
		}
		f, seen := first[m.version]
		if !seen {
			first[m.version] = i
			for _, e := range s.timeline.between(s.scope(), m.version-1, m.version) {
				if _, ok := s.index[e.versionOf]; !ok && s.asksFor(m.version) {
					breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s showed %q %s, but not %s", s.name(), m, at(m.Seen), e.describe()), s.changeOf(m), e.keyChange))
					break
				}
			}
			continue
		}
		if s.messages[f].Batch != m.Batch && s.index[m.id()] == i {
			b := s.breachAt(i, fmt.Sprintf("%s showed version %s of %s in response %d, and of %s in response %d",
				s.name(), m.Revision, s.messages[f].Key, s.messages[f].Batch, m.Key, m.Batch), s.changeOf(m))
			b.spans = append(b.spans, s.spans(f)...)
			breaches = append(breaches, b)
		}
	}
	return breaches
}

// asksFor tells whether a version is one that the watch was to show.
func (s *stream) asksFor(version uint64) bool { return version > s.from() }
