package judge

import "fmt"

func watchOrdered() definition {
	const must = "Events of a watch must come in the order of their versions"
	return definition{Doc{
		Name:      "watch-ordered",
		Invariant: "HA-INV-005",
		Lasting:   true,
		Guarantee: "The events of a watch come in the order of their versions; equal versions are those of one etcd transaction on several keys. The state with which a watch may begin has no order.",
		Source:    sourceAPI + "; " + sourceEtcd + " (ordered)",
	}, func(m *matter) finding {
		return m.watches(must, "watch that showed a change", hasEvents, func(s *stream) []breach { return s.disorder() })
	}}
}

func (s *stream) disorder() []breach {
	top := -1
	var breaches []breach
	for i, m := range s.messages {
		if m.bookmark() {
			continue
		}
		if top >= 0 && s.live(i) {
			highest := s.messages[top]
			same := m.version == highest.version && m.Key != highest.Key && s.watch.API == apiKubernetes
			if m.version < highest.version || same {
				breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s showed version %s of %s after version %s of %s",
					s.name(), m.Revision, m.Key, highest.Revision, highest.Key), s.changeOf(m), s.changeOf(highest)))
			}
		}
		if top < 0 || m.version >= s.messages[top].version {
			top = i
		}
	}
	return breaches
}
