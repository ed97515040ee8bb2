package facts

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// ChangeOf returns the change that a message reports, nil if it is not known.
func (s *Stream) ChangeOf(m Message) *KeyChange {
	e, _, known := s.Shown(m)
	if !known {
		return nil
	}
	return e.KeyChange
}

// BeforeOf returns the key's state before a change, nil for absent.
func (s *Stream) BeforeOf(e Expectation) *KeyChange {
	i, ok := e.Line.Find(e.Revision)
	if !ok {
		return nil
	}
	return e.Line.Before(i)
}

// ShowsPrevious reports whether an etcd watch requested the previous values.
func ShowsPrevious(s *Stream) bool {
	return s.Watch.Previous && s.Watch.API == APIEtcd && slices.ContainsFunc(s.Messages, func(m Message) bool {
		return m.PreviousRevision != "" || m.Type == record.EventAdded
	})
}

// StaleBegin finds a streaming list that is older than requested: than the newest state if it
// requested no version.
func (s *Stream) StaleBegin() []Breach {
	if s.Base == 0 || s.Begin == 0 {
		return nil // etcd has no streaming lists
	}
	i := s.Begin - 1
	if from := record.Number(s.Watch.From); s.Base < from {
		return []Breach{s.BreachAt(i, fmt.Sprintf("%s, from version %s, began with the state of version %d", s.Name(), s.Watch.From, s.Base))}
	}
	if s.Watch.From != "" {
		return nil
	}
	for _, item := range s.state(s.Begin) {
		if d := s.Timeline.removed(item, s.Watch.Called); d != nil {
			b := s.BreachAt(i, fmt.Sprintf("%s, called %s, began with %s = %q, the deletion of which had been acknowledged to %s %s",
				s.Name(), text.At(s.Watch.Called), item.Key, item.Value, d.Client, text.At(d.Return)))
			b.Evidence = append(b.Evidence, text.Describe(*d))
			b.Spans = append(append(b.Spans, SpanOfWrite(&Write{Op: d})...), s.Opening())
			return []Breach{b}
		}
	}
	if w := s.Timeline.NewestBefore(s.Watch.Called); w != nil && w.Revision > s.Base {
		b := s.BreachAt(i, fmt.Sprintf("%s, called %s, began with the state of version %d, although version %d had been acknowledged to %s %s",
			s.Name(), text.At(s.Watch.Called), s.Base, w.Revision, w.Op.Client, text.At(w.Op.Return)))
		b.Evidence = append(b.Evidence, text.Describe(*w.Op))
		b.Spans = append(append(b.Spans, SpanOfWrite(w)...), s.Opening())
		return []Breach{b}
	}
	return nil
}
