package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// ClientsOwn is the client's reason for a watch that it closed itself.
const ClientsOwn = "closed by the client"

// SilenceLimit is how long an open watch may take to show a change that was acknowledged after
// everything is healed: far longer than it takes on a busy machine.
const SilenceLimit = 5 * time.Second

// BrokeDown reports whether a watch ended other than by its client's decision or on time.
func BrokeDown(ended *record.Watch) bool {
	return ended.Error != "" && !strings.HasPrefix(ended.Error, ClientsOwn)
}

// LeftOut describes what the watch left out between its start and its last message.
func (s *Stream) LeftOut() []Breach { return s.leftOut("") }

// LeftOutFirst describes what the watch left out before its first message: it did not continue
// from the version that it was opened with.
func (s *Stream) LeftOutFirst() []Breach {
	if g := s.findGap(); g == nil || g.proof != 0 {
		return nil
	}
	where := ", from version " + s.Watch.From
	if s.Previous != nil {
		where += fmt.Sprintf(" of watch %s through %s", s.Previous.Watch.ID, s.Previous.Watch.Entrance)
	}
	return s.leftOut(where + ",")
}

// leftOut adds a remark about the watch to its name.
func (s *Stream) leftOut(watch string) []Breach {
	g := s.findGap()
	if g == nil {
		return nil
	}
	first, proof := g.missing[0], s.Messages[g.proof]
	others := ""
	if n := len(g.missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d other changes", n)
	}
	b := s.BreachAt(g.proof, fmt.Sprintf("%s%s left out %s%s, and had passed it %s with %q", s.Name(), watch, first.Describe(), others, text.At(proof.Seen), proof), first.KeyChange)
	if g.proof == 0 {
		b.Spans = append(b.Spans, s.Opening())
	}
	return []Breach{b}
}
