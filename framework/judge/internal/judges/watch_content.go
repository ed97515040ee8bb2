package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchContent = Definition{Doc{
	Name:      "watch-content",
	Invariant: "HA-INV-007",
	Lasting:   true,
	Guarantee: "What a watch shows of a key is what a client wrote, in the version and group that the write made; a deletion is one that a client asked for and shows the object as it was before it; each message has a version.",
	Source:    sourceAPI + "; " + sourceEtcd,
}, watches("A watch must show what was written", "watch that showed a change", hasContent, func(s *facts.Stream) []facts.Breach {
	breaches := withoutVersion(s)
	for i, m := range s.Messages {
		if m.Bookmark() {
			continue
		}
		if what := wrongContent(s, m); what != "" {
			var c, before *facts.KeyChange
			if e, _, known := s.Shown(m); known {
				c, before = e.KeyChange, s.BeforeOf(e)
			}
			b := s.BreachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.Name(), m, text.At(m.Seen), what), c, before)
			b.Spans = append(b.Spans, facts.SpanOfWrite(s.Timeline.ByValue[facts.PairOf{Key: m.Key, Value: m.Value}])...)
			breaches = append(breaches, b)
		}
	}
	return breaches
})}

func hasContent(s *facts.Stream) bool { return hasEvents(s) || len(s.Unread) > 0 }

// withoutVersion finds messages without a valid version: no client can continue from there.
func withoutVersion(s *facts.Stream) (breaches []facts.Breach) {
	for _, m := range s.Unread {
		breaches = append(breaches, facts.Breach{At: m.Seen, What: fmt.Sprintf("%s showed %q %s, in version %q, which is not a version", s.Name(), m, text.At(m.Seen), m.Revision),
			Evidence: []string{fmt.Sprintf("%s, version %q, %s", m.Type, m.Revision, text.When(m.Seen))}, Spans: []verdict.Span{s.Opening(), facts.Blamed(facts.EventSpan(*m.Event))}})
	}
	return breaches
}

// wrongContent describes what is wrong in what an event shows of its key.
func wrongContent(s *facts.Stream, m facts.Message) string {
	t := s.Timeline
	l := t.Lines[m.Key]
	if m.Type == record.EventDeleted {
		return wrongDeletion(s, m, l)
	}
	if what := t.Stranger(m.Key, m.Value, m.Number); what != "" {
		return what
	}
	if w := t.ByValue[facts.PairOf{Key: m.Key, Value: m.Value}]; w != nil && w.Group != "" && m.Group != "" && m.Group != w.Group {
		return fmt.Sprintf("in group %q, but it was written to group %q", m.Group, w.Group)
	}
	return ""
}

func wrongDeletion(s *facts.Stream, m facts.Message, l *facts.KeyLine) string {
	t := s.Timeline
	switch {
	case t.First == facts.NoVersion || m.Number < t.First:
		return "" // from before the record
	case l == nil:
		return "which is of a key that no client wrote"
	case l.Disputed:
		return ""
	}
	i, found := l.Find(m.Number)
	if !found {
		if i < len(l.Changes) && l.Changes[i].Revision == m.Number {
			return "" // it may have left the group
		}
		return "but no client can have deleted it then"
	}
	if old := l.Before(i); l.Sure(i) && old != nil && m.Value != "" && m.Value != old.Value {
		return fmt.Sprintf("but it was %q before", old.Value)
	}
	return ""
}
