package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchContent() definition {
	const must = "A watch must show what was written"
	return definition{Doc{
		Name:      "watch-content",
		Invariant: "HA-INV-007",
		Lasting:   true,
		Guarantee: "What a watch shows of a key is what a client wrote, in the version and group that the write made; a deletion is one that a client asked for and shows the object as it was before it; each message has a version.",
		Source:    sourceAPI + "; " + sourceEtcd,
	}, func(m *matter) finding {
		return m.watches(must, "watch that showed a change", hasContent, func(s *stream) []breach {
			breaches := s.withoutVersion()
			for i, m := range s.messages {
				if m.bookmark() {
					continue
				}
				if what := s.wrongContent(m); what != "" {
					var c, before *keyChange
					if e, _, known := s.shown(m); known {
						c, before = e.keyChange, s.beforeOf(e)
					}
					b := s.breachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.name(), m, at(m.Seen), what), c, before)
					b.spans = append(b.spans, spanOfWrite(s.timeline.byValue[pairOf{m.Key, m.Value}])...)
					breaches = append(breaches, b)
				}
			}
			return breaches
		})
	}}
}

func hasContent(s *stream) bool { return hasEvents(s) || len(s.unread) > 0 }

// withoutVersion finds messages whose version is not one: no client can go on from there.
func (s *stream) withoutVersion() (breaches []breach) {
	for _, m := range s.unread {
		breaches = append(breaches, breach{at: m.Seen, what: fmt.Sprintf("%s showed %q %s, in version %q, which is not a version", s.name(), m, at(m.Seen), m.Revision),
			evidence: []string{fmt.Sprintf("%s, version %q, %s", m.Type, m.Revision, when(m.Seen))}, spans: []Span{s.opening(), eventSpan(*m.Event).blamed()}})
	}
	return breaches
}

// wrongContent says what is wrong with what an event shows of its key.
func (s *stream) wrongContent(m message) string {
	t := s.timeline
	l := t.lines[m.Key]
	if m.Type == record.EventDeleted {
		return s.wrongDeletion(m, l)
	}
	if what := t.stranger(m.Key, m.Value, m.version); what != "" {
		return what
	}
	if w := t.byValue[pairOf{m.Key, m.Value}]; w != nil && w.group != "" && m.Group != "" && m.Group != w.group {
		return fmt.Sprintf("in group %q, but it was written to group %q", m.Group, w.group)
	}
	return ""
}

func (s *stream) wrongDeletion(m message, l *keyLine) string {
	t := s.timeline
	switch {
	case t.first == noVersion || m.version < t.first:
		return "" // from before the record
	case l == nil:
		return "which is of a key that nobody wrote"
	case l.disputed:
		return ""
	}
	i, found := l.find(m.version)
	if !found {
		if i < len(l.changes) && l.changes[i].revision == m.version {
			return "" // it may have left the group
		}
		return "but nobody can have deleted it then"
	}
	if old := l.before(i); l.sure(i) && old != nil && m.Value != "" && m.Value != old.value {
		return fmt.Sprintf("but it was %q before", old.value)
	}
	return ""
}
