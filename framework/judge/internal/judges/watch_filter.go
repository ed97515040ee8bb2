package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchFilter = Definition{Doc{
	Name:      "watch-filter",
	Invariant: "HA-INV-007",
	Lasting:   true,
	Guarantee: "A watch of one name or one group shows changes of that only; an object that enters the group comes as added, one that leaves it as deleted.",
	Source:    sourceAPI + " (label and field selectors)",
}, watches("A watch must show only what it was asked for", "watch of one name or group that showed a change", selective, unasked)}

func selective(s *facts.Stream) bool {
	return hasEvents(s) && (s.Watch.Key != "" || s.Watch.Group != "")
}

func unasked(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	accuse := func(i int, what string, changes ...*facts.KeyChange) {
		breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.Name(), s.Messages[i], text.At(s.Messages[i].Seen), what), changes...))
	}
	for i, m := range s.Messages {
		if m.Bookmark() {
			continue
		}
		if s.Watch.Key != "" && m.Key != s.Watch.Key {
			accuse(i, "which has another name")
			continue
		}
		if s.Watch.Group == "" {
			continue
		}
		e, ok, known := s.Shown(m)
		switch {
		case m.Type != record.EventDeleted && m.Group != "" && m.Group != s.Watch.Group:
			accuse(i, "which is in group "+m.Group, e.KeyChange)
		case !known:
		case !ok:
			accuse(i, "but it was not in the group, nor did it enter or leave it", e.KeyChange, s.BeforeOf(e))
		case s.Live(i) && e.Crossing && e.Type != m.Type:
			accuse(i, map[record.EventType]string{
				record.EventAdded:   "but it entered the group then, which comes as added",
				record.EventDeleted: "but it left the group then, which comes as deleted",
			}[e.Type], e.KeyChange, s.BeforeOf(e))
		}
	}
	return breaches
}
