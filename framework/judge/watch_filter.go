package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchFilter() definition {
	const must = "A watch must show only what it was asked for"
	return definition{Doc{
		Name:      "watch-filter",
		Invariant: "HA-INV-007",
		Lasting:   true,
		Guarantee: "A watch of one name or one group shows changes of that only; an object that enters the group comes as added, one that leaves it as deleted.",
		Source:    sourceAPI + " (label and field selectors)",
	}, func(m *matter) finding {
		selective := func(s *stream) bool { return hasEvents(s) && (s.watch.Key != "" || s.watch.Group != "") }
		return m.watches(must, "watch of one name or group that showed a change", selective, func(s *stream) []breach { return s.unasked() })
	}}
}

func (s *stream) unasked() []breach {
	var breaches []breach
	accuse := func(i int, what string, changes ...*keyChange) {
		breaches = append(breaches, s.breachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.name(), s.messages[i], at(s.messages[i].Seen), what), changes...))
	}
	for i, m := range s.messages {
		if m.bookmark() {
			continue
		}
		if s.watch.Key != "" && m.Key != s.watch.Key {
			accuse(i, "which is of another name")
			continue
		}
		if s.watch.Group == "" {
			continue
		}
		e, ok, known := s.shown(m)
		switch {
		case m.Type != record.EventDeleted && m.Group != "" && m.Group != s.watch.Group:
			accuse(i, "which is of group "+m.Group, e.keyChange)
		case !known:
		case !ok:
			accuse(i, "but it was not in the group, nor did it enter or leave it", e.keyChange, s.beforeOf(e))
		case s.live(i) && e.crossing && e.typ != m.Type:
			accuse(i, map[record.EventType]string{
				record.EventAdded:   "but it entered the group then, which comes as added",
				record.EventDeleted: "but it left the group then, which comes as deleted",
			}[e.typ], e.keyChange, s.beforeOf(e))
		}
	}
	return breaches
}
