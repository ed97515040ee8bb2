package judge

import (
	"cmp"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// message is one message of a watch, with its version as a number.
type message struct {
	*record.Event
	version uint64
}

func (m message) bookmark() bool { return m.Type == record.EventBookmark }

func (m message) id() versionOf { return versionOf{m.Key, m.version} }

// stream is one watch with all that it said.
type stream struct {
	watch    *record.Watch // as it was opened, or as it was refused
	opened   bool
	ended    *record.Watch // nil while it goes on
	timeline *timeline
	messages []message
	// previous is the watch that it goes on from, nil for none.
	previous *stream
	// begin is how many messages tell the state with which the watch began, as far as
	// that can be told: changes that came at once can look the same.
	begin int
	// base is the version of which the first begin messages are the state; every later
	// change is to be shown. 0 where it is not known.
	base uint64
	// index tells which message showed a change first.
	index map[versionOf]int
	// unread are the messages whose version is not a number; they are not among the others.
	unread   []message
	gap      *omission
	gapKnown bool
}

// scope is what a watch or a list is restricted to; empty fields do not restrict.
type scope struct{ key, group string }

func (s *stream) scope() scope { return scope{s.watch.Key, s.watch.Group} }

func (s scope) has(c *keyChange) bool { return c != nil && (s.group == "" || c.group == s.group) }

// from is the version after which changes are to be shown; 0 where the watch began
// with the state, or with the next change.
func (s *stream) from() uint64 {
	v := number(s.watch.From)
	switch {
	case s.watch.Initial || v == 0:
		return 0
	case s.watch.API == apiEtcd:
		return v - 1 // etcd also shows what came at that version
	}
	return v
}

// withState tells whether the watch began with the state as added events.
func (s *stream) withState() bool {
	return s.watch.API == apiKubernetes && (s.watch.Initial || number(s.watch.From) == 0)
}

// settle finds out where the watch began.
func (s *stream) settle() {
	s.messages = slices.DeleteFunc(s.messages, func(m message) bool {
		if m.version == 0 {
			s.unread = append(s.unread, m)
		}
		return m.version == 0
	})
	for i, m := range s.messages {
		if _, ok := s.index[m.id()]; !ok && !m.bookmark() {
			s.index[m.id()] = i
		}
	}
	switch {
	case s.watch.Initial && s.watch.API == apiKubernetes:
		s.begin = len(s.messages)
		for i, m := range s.messages {
			if m.bookmark() && m.InitialEnd {
				s.begin, s.base = i+1, m.version
				break
			}
		}
	case s.withState():
		s.settleState()
	case s.from() > 0 || number(s.watch.From) > 0:
		s.base = s.from()
	case len(s.messages) > 0:
		// etcd begins with the next change after the watch stands.
		s.base = s.messages[0].version
		if !s.messages[0].bookmark() {
			s.base--
		}
		if first := s.timeline.highest(s.watch.Seen); s.opened && first != never {
			s.base = min(s.base, first-1)
		}
	}
}

// settleState finds the end of the state with which a watch began that does not mark
// it: at the latest before the first message that cannot be of it. What is added later
// on and counted in does no harm, since it is of the state right after it.
func (s *stream) settleState() {
	seen, highest := map[string]bool{}, uint64(0)
	for _, m := range s.messages {
		if m.Type != record.EventAdded || seen[m.Key] {
			break
		}
		seen[m.Key] = true
		highest = max(highest, m.version)
		s.begin++
	}
	if s.begin == len(s.messages) {
		return // the state itself may have been cut short
	}
	next := s.messages[s.begin]
	base := next.version
	if !next.bookmark() {
		base--
	}
	if base >= highest {
		s.base = base
	}
}

// live tells whether message i tells of a change, rather than of the state with which
// the watch began.
func (s *stream) live(i int) bool {
	return !s.messages[i].bookmark() && (i >= s.begin || s.messages[i].Type != record.EventAdded)
}

// expectation is what a watch or a list of some scope must show of a change.
type expectation struct {
	*keyChange
	line *keyLine
	// typ is empty where it is not known whether the key was there before.
	typ record.EventType
	// crossing marks a key that was there and still is, but entered or left the group.
	crossing bool
	// sure tells that the change is to be shown; without it, it may be.
	sure bool
}

// expect tells what a watch of a scope must show of change i of a key; ok is false
// where it must show nothing.
func (s scope) expect(l *keyLine, i int) (e expectation, ok bool) {
	c := &l.changes[i]
	e = expectation{keyChange: c, line: l}
	if l.disputed || c.late || c.unclear {
		return e, true
	}
	sure := l.sure(i)
	old := l.before(i)
	is := c.present && s.has(c)
	was := s.has(old)
	switch {
	case is:
		e.sure = true
		if sure {
			e.typ = record.EventAdded
			if was {
				e.typ = record.EventModified
			}
			e.crossing = !was && old != nil
		}
	case s.group == "":
		e.sure, e.typ = true, record.EventDeleted
	case !sure:
	case was:
		e.sure, e.typ, e.crossing = true, record.EventDeleted, c.present
	default:
		return e, false
	}
	return e, true
}

// expected returns all that a watch of a scope must show, in the order of versions.
func (t *timeline) expected(s scope) []expectation {
	if list, ok := t.scopes[s]; ok {
		return list
	}
	keys := t.keys
	if s.key != "" {
		keys = nil
		if t.lines[s.key] != nil {
			keys = []string{s.key}
		}
	}
	var list []expectation
	for _, key := range keys {
		l := t.lines[key]
		for i := range l.changes {
			if e, ok := s.expect(l, i); ok && e.sure {
				list = append(list, e)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b expectation) int { return cmp.Compare(a.revision, b.revision) })
	t.scopes[s] = list
	return list
}

// between returns what a watch of a scope must show after one version and up to another.
func (t *timeline) between(s scope, after, upTo uint64) []expectation {
	list := t.expected(s)
	i := sort.Search(len(list), func(i int) bool { return list[i].revision > after })
	j := sort.Search(len(list), func(i int) bool { return list[i].revision > upTo })
	return list[i:max(i, j)]
}

// shown returns what is known of the change that a message tells of.
func (s *stream) shown(m message) (e expectation, ok, known bool) {
	l := s.timeline.lines[m.Key]
	if l == nil || l.disputed {
		return e, false, false
	}
	i, found := l.find(m.version)
	if !found {
		return e, false, false
	}
	e, ok = s.scope().expect(l, i)
	return e, ok, true
}

// omission is what a watch should have shown and did not.
type omission struct {
	missing []expectation
	// proof is the first message that shows that the watch was past the first of them.
	proof int
}

// findGap returns the changes that the watch left out between where it began and the
// last that it said; nil for none. A transaction of which it showed a part is not one.
func (s *stream) findGap() *omission {
	if !s.gapKnown {
		s.gapKnown = true
		s.gap = s.lookForGap()
	}
	return s.gap
}

func (s *stream) lookForGap() *omission {
	if !s.opened || s.base == 0 && s.from() == 0 {
		return nil
	}
	events, upTo := uint64(0), uint64(0)
	for i, m := range s.messages {
		if m.bookmark() {
			upTo = max(upTo, m.version)
		} else if i >= s.begin {
			events = max(events, m.version)
		}
	}
	if s.watch.API == apiEtcd && events > 0 {
		events-- // of the last one, more may be on its way
	}
	upTo = max(upTo, events)
	var g *omission
	for _, e := range s.timeline.between(s.scope(), s.base, upTo) {
		if _, ok := s.index[e.versionOf]; ok {
			continue
		}
		if g == nil {
			g = &omission{proof: slices.IndexFunc(s.messages, func(m message) bool {
				return m.version > e.revision || m.version == e.revision && (m.bookmark() || s.watch.API == apiKubernetes)
			})}
		}
		g.missing = append(g.missing, e)
	}
	return g
}
