package judge

import "fmt"

func watchPrevious() definition {
	const must = "etcd must show the pair as it was before the change"
	return definition{Doc{
		Name:      "watch-previous",
		Invariant: "HA-INV-007",
		Lasting:   true,
		Guarantee: "Where a watch of etcd asks for the previous pair, an event has the one right before its change, and none where there was none. " +
			"That it is missing proves nothing: etcd leaves it out once it is compacted.",
		Source: "etcd API, watch (prev_kv)",
	}, func(m *matter) finding {
		return m.watches(must, "watch of etcd that showed what was there before", showsPrevious, func(s *stream) []breach {
			var breaches []breach
			for i, m := range s.messages {
				if what, before := s.wrongPrevious(m); what != "" {
					breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.name(), m, at(m.Seen), what), s.changeOf(m), before))
				}
			}
			return breaches
		})
	}}
}

func (s *stream) wrongPrevious(m message) (what string, before *keyChange) {
	revision := number(m.PreviousRevision)
	if m.bookmark() || revision == 0 {
		return "", nil
	}
	shown := fmt.Sprintf("and before it %q of version %s", m.PreviousValue, m.PreviousRevision)
	if problem := s.timeline.stranger(m.Key, m.PreviousValue, revision); problem != "" {
		return shown + ", " + problem, nil
	}
	e, _, known := s.shown(m)
	if !known {
		return "", nil
	}
	i, ok := e.line.find(e.revision)
	if !ok || !e.line.sure(i) {
		return "", nil
	}
	switch before = e.line.before(i); {
	case before == nil:
		return shown + ", but there was nothing", nil
	case before.revision != revision || before.value != m.PreviousValue:
		return shown + ", instead of " + before.describe(), before
	}
	return "", nil
}
