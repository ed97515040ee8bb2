package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchFlags() definition {
	const must = "An event must say rightly whether it added, modified or deleted"
	return definition{Doc{
		Name:      "watch-flags",
		Invariant: "HA-INV-007",
		Lasting:   true,
		Guarantee: "An event says added where the key was not there, modified where it was, and deleted where it went; etcd's create revision and version of the key agree with that.",
		Source:    sourceAPI + "; etcd API, key-value pair (create_revision, version)",
	}, func(m *matter) finding {
		return m.watches(must, "watch that showed a change", hasEvents, func(s *stream) []breach {
			var breaches []breach
			for i, m := range s.messages {
				if !s.live(i) {
					continue
				}
				e, ok, known := s.shown(m)
				what := m.contradiction()
				if what == "" && known && ok {
					what = s.wrongFlag(m, e)
				}
				if what != "" {
					var before *keyChange
					if known {
						before = s.beforeOf(e)
					}
					breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.name(), m, at(m.Seen), what), e.keyChange, before))
				}
			}
			return breaches
		})
	}}
}

// contradiction says where an event of etcd contradicts itself.
func (m message) contradiction() string {
	created := number(m.CreateRevision)
	if created == 0 || m.Type == record.EventDeleted {
		return ""
	}
	if isNew := m.Type == record.EventAdded; isNew != (created == m.version) || isNew != (m.Version == 1) || created > m.version {
		return fmt.Sprintf("with create revision %s and version %d of the key", m.CreateRevision, m.Version)
	}
	return ""
}

// wrongFlag says where an event contradicts the history.
func (s *stream) wrongFlag(m message, e expectation) string {
	was := func(t record.EventType) string {
		return map[record.EventType]string{
			record.EventAdded:    "but the key was not there before",
			record.EventModified: "but the key was there before and after",
			record.EventDeleted:  "but the key was deleted then",
		}[t]
	}
	switch {
	case e.crossing:
		return "" // what watch-filter is about
	case e.typ != "" && e.typ != m.Type:
		return was(e.typ)
	case e.sure && e.typ == "" && e.present && m.Type == record.EventDeleted:
		return "but the key was there after it"
	case e.created > 0 && m.CreateRevision != "" && m.Type != record.EventDeleted && (number(m.CreateRevision) != e.created || m.Version != e.count):
		return fmt.Sprintf("with create revision %s and version %d of the key instead of %d and %d", m.CreateRevision, m.Version, e.created, e.count)
	}
	return ""
}
