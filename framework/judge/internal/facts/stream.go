package facts

import (
	"cmp"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Message is one message of a watch, with its version as a number.
type Message struct {
	*record.Event
	Number uint64
}

func (m Message) Bookmark() bool { return m.Type == record.EventBookmark }

func (m Message) ID() VersionOf { return VersionOf{m.Key, m.Number} }

// Stream is one watch with everything that it reported.
type Stream struct {
	Watch    *record.Watch // as it was opened, or as it was refused
	Opened   bool
	Ended    *record.Watch // nil while it is open
	Timeline *Timeline
	Messages []Message
	// Previous is the watch that it continues from, nil for none.
	Previous *Stream
	// Begin is how many messages belong to the state with which the watch started, as far as is
	// known: immediate changes can look the same.
	Begin int
	// Base is the version of the state that the first begin messages show; the watch must show
	// every later change. 0 if it is not known.
	Base uint64
	// Index reports which message showed a change first.
	Index map[VersionOf]int
	// Unread are the messages whose version is not a number; they are not among the others.
	Unread   []Message
	gap      *omission
	gapKnown bool
}

// Scope is what a watch or a list is restricted to; empty fields do not restrict.
type Scope struct{ Key, Group string }

func (s *Stream) Scope() Scope { return Scope{s.Watch.Key, s.Watch.Group} }

func (s Scope) has(c *KeyChange) bool { return c != nil && (s.Group == "" || c.Group == s.Group) }

// From is the version after which the watch must show changes; 0 if the watch started with the
// state, or with the next change.
func (s *Stream) From() uint64 {
	v := record.Number(s.Watch.From)
	switch {
	case s.Watch.Initial || v == 0:
		return 0
	case s.Watch.API == APIEtcd:
		return v - 1 // etcd also shows changes at that version
	}
	return v
}

// WithState reports whether the watch began with the state as added events.
func (s *Stream) WithState() bool {
	return s.Watch.API == APIKubernetes && (s.Watch.Initial || record.Number(s.Watch.From) == 0)
}

// settle finds out from which version the watch shows changes.
func (s *Stream) settle() {
	s.Messages = slices.DeleteFunc(s.Messages, func(m Message) bool {
		if m.Number == 0 {
			s.Unread = append(s.Unread, m)
		}
		return m.Number == 0
	})
	for i, m := range s.Messages {
		if _, ok := s.Index[m.ID()]; !ok && !m.Bookmark() {
			s.Index[m.ID()] = i
		}
	}
	switch {
	case s.Watch.Initial && s.Watch.API == APIKubernetes:
		s.Begin = len(s.Messages)
		for i, m := range s.Messages {
			if m.Bookmark() && m.InitialEnd {
				s.Begin, s.Base = i+1, m.Number
				break
			}
		}
	case s.WithState():
		s.settleState()
	case s.From() > 0 || record.Number(s.Watch.From) > 0:
		s.Base = s.From()
	case len(s.Messages) > 0:
		// etcd starts with the next change after the watch is established.
		s.Base = s.Messages[0].Number
		if !s.Messages[0].Bookmark() {
			s.Base--
		}
		if first := s.Timeline.highest(s.Watch.Seen); s.Opened && first != Never {
			s.Base = min(s.Base, first-1)
		}
	}
}

// settleState finds the end of an unmarked initial state: at the latest before the first message
// that cannot belong to it. Counting in objects added later does no harm, since they belong to
// the state right after it.
func (s *Stream) settleState() {
	seen, highest := map[string]bool{}, uint64(0)
	for _, m := range s.Messages {
		if m.Type != record.EventAdded || seen[m.Key] {
			break
		}
		seen[m.Key] = true
		highest = max(highest, m.Number)
		s.Begin++
	}
	if s.Begin == len(s.Messages) {
		return // the state itself may have been cut short
	}
	next := s.Messages[s.Begin]
	base := next.Number
	if !next.Bookmark() {
		base--
	}
	if base >= highest {
		s.Base = base
	}
}

// Live reports whether message i reports a change rather than the initial state.
func (s *Stream) Live(i int) bool {
	return !s.Messages[i].Bookmark() && (i >= s.Begin || s.Messages[i].Type != record.EventAdded)
}

// Expectation is what a watch or a list of some scope must show of a change.
type Expectation struct {
	*KeyChange
	Line *KeyLine
	// Type is empty if it is not known whether the key existed before.
	Type record.EventType
	// Crossing marks a key that existed and still exists, but entered or left the group.
	Crossing bool
	// Sure reports that the watch must show the change; without it, it may.
	Sure bool
}

// expect reports what a watch of a scope must show of change i of a key; ok is false if it must
// show nothing.
func (s Scope) expect(l *KeyLine, i int) (e Expectation, ok bool) {
	c := &l.Changes[i]
	e = Expectation{KeyChange: c, Line: l}
	if l.Disputed || c.late || c.unclear {
		return e, true
	}
	sure := l.Sure(i)
	old := l.Before(i)
	is := c.Present && s.has(c)
	was := s.has(old)
	switch {
	case is:
		e.Sure = true
		if sure {
			e.Type = record.EventAdded
			if was {
				e.Type = record.EventModified
			}
			e.Crossing = !was && old != nil
		}
	case s.Group == "":
		e.Sure, e.Type = true, record.EventDeleted
	case !sure:
	case was:
		e.Sure, e.Type, e.Crossing = true, record.EventDeleted, c.Present
	default:
		return e, false
	}
	return e, true
}

// Expected returns all that a watch of a scope must show, in the order of versions.
func (t *Timeline) Expected(s Scope) []Expectation {
	if list, ok := t.scopes[s]; ok {
		return list
	}
	keys := t.Keys
	if s.Key != "" {
		keys = nil
		if t.Lines[s.Key] != nil {
			keys = []string{s.Key}
		}
	}
	var list []Expectation
	for _, key := range keys {
		l := t.Lines[key]
		for i := range l.Changes {
			if e, ok := s.expect(l, i); ok && e.Sure {
				list = append(list, e)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Expectation) int { return cmp.Compare(a.Revision, b.Revision) })
	t.scopes[s] = list
	return list
}

// Between returns what a watch of a scope must show after one version and up to another.
func (t *Timeline) Between(s Scope, after, upTo uint64) []Expectation {
	list := t.Expected(s)
	i := sort.Search(len(list), func(i int) bool { return list[i].Revision > after })
	j := sort.Search(len(list), func(i int) bool { return list[i].Revision > upTo })
	return list[i:max(i, j)]
}

// Shown returns what is known of the change that a message reports.
func (s *Stream) Shown(m Message) (e Expectation, ok, known bool) {
	l := s.Timeline.Lines[m.Key]
	if l == nil || l.Disputed {
		return e, false, false
	}
	i, found := l.Find(m.Number)
	if !found {
		return e, false, false
	}
	e, ok = s.Scope().expect(l, i)
	return e, ok, true
}

// omission is what a watch should have shown and did not.
type omission struct {
	missing []Expectation
	// proof is the first message that shows that the watch was past the first of them.
	proof int
}

// findGap returns the changes that the watch left out between its start and its last message; nil
// for none. A transaction of which it showed a part is not one.
func (s *Stream) findGap() *omission {
	if !s.gapKnown {
		s.gapKnown = true
		s.gap = s.lookForGap()
	}
	return s.gap
}

func (s *Stream) lookForGap() *omission {
	if !s.Opened || s.Base == 0 && s.From() == 0 {
		return nil
	}
	events, upTo := uint64(0), uint64(0)
	for i, m := range s.Messages {
		if m.Bookmark() {
			upTo = max(upTo, m.Number)
		} else if i >= s.Begin {
			events = max(events, m.Number)
		}
	}
	if s.Watch.API == APIEtcd && events > 0 {
		events-- // more of the last one may still arrive
	}
	upTo = max(upTo, events)
	var g *omission
	for _, e := range s.Timeline.Between(s.Scope(), s.Base, upTo) {
		if _, ok := s.Index[e.VersionOf]; ok {
			continue
		}
		if g == nil {
			g = &omission{proof: slices.IndexFunc(s.Messages, func(m Message) bool {
				return m.Number > e.Revision || m.Number == e.Revision && (m.Bookmark() || s.Watch.API == APIKubernetes)
			})}
		}
		g.missing = append(g.missing, e)
	}
	return g
}
