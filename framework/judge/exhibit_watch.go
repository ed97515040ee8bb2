package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// breach is one thing that a list or a watch showed and must not have, or did not show
// and must have.
type breach struct {
	at       record.Nanos
	what     string // completes "A watch must …: "
	evidence []string
	spans    []Span
}

// exhibitOf puts spans into the order of their begins; one that is there twice counts
// once, and is the culprit if either is.
func exhibitOf(title string, spans []Span) *Exhibit {
	e := &Exhibit{Title: title}
	for _, s := range spans {
		i := slices.IndexFunc(e.Spans, func(o Span) bool { return o.Lane == s.Lane && o.Label == s.Label && o.From == s.From && o.To == s.To })
		if i < 0 {
			e.Spans = append(e.Spans, s)
		} else {
			e.Spans[i].Culprit = e.Spans[i].Culprit || s.Culprit
		}
	}
	slices.SortStableFunc(e.Spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return e
}

// spanOfWrite draws the operation behind a change, if there is one in the record.
func spanOfWrite(w *write) []Span {
	if w == nil {
		return nil
	}
	op := w.op
	label := fmt.Sprintf("%s %s", op.Type, op.Key)
	if !w.deletes() {
		label += fmt.Sprintf(" = %q", op.Value)
	}
	if w.revision > 0 {
		label += fmt.Sprintf(" → version %d", w.revision)
	}
	if op.Outcome != record.OK {
		label += fmt.Sprintf(" (%s)", op.Outcome)
	}
	return []Span{{Lane: cmp.Or(op.Client, op.Entrance), Label: label, From: op.Call, To: op.Return, Open: op.Outcome == record.Unknown}}
}

// spans draws message i of a watch, as the culprit, with its neighbours.
func (s *stream) spans(i int) []Span {
	var list []Span
	for j := max(i-1, 0); j < min(i+2, len(s.messages)); j++ {
		m := s.messages[j]
		list = append(list, Span{Lane: s.lane(), Label: m.String(), From: m.Seen, To: m.Seen, Culprit: j == i})
	}
	return list
}

// opening draws how the watch was asked for.
func (s *stream) opening() Span {
	return Span{Lane: s.lane(), Label: s.asked(), From: s.watch.Called, To: s.watch.Seen}
}

func (s *stream) lane() string { return "watch " + s.watch.ID }

// name names a watch for people.
func (s *stream) name() string {
	return fmt.Sprintf("watch %s of %s by %s through %s", s.watch.ID, s.of(), s.watch.Client, s.watch.Entrance)
}

// of says what is watched.
func (s *stream) of() string {
	switch {
	case s.watch.Key != "":
		return s.watch.Key
	case s.watch.Group != "":
		return fmt.Sprintf("group %s of %s", s.watch.Group, s.watch.Collection)
	}
	return s.watch.Collection
}

// asked says from where the watch was asked to begin.
func (s *stream) asked() string {
	what := "watch"
	if s.watch.Initial {
		what = "streaming list"
	}
	if s.watch.From != "" {
		what += " from version " + s.watch.From
	}
	return what
}

// String gives a message for people: "modified k1 = \"v7\" in version 118".
func (m message) String() string {
	var b strings.Builder
	b.WriteString(string(m.Type))
	if m.bookmark() {
		fmt.Fprintf(&b, " of version %s", m.Revision)
		return b.String()
	}
	b.WriteString(" " + m.Key)
	if m.Value != "" {
		fmt.Fprintf(&b, " = %q", m.Value)
	}
	fmt.Fprintf(&b, " in version %s", m.Revision)
	return b.String()
}

// describe says what a change was and whose.
func (c *keyChange) describe() string {
	what := fmt.Sprintf("%s = %q in version %d", c.key, c.value, c.revision)
	switch {
	case c.late:
		what = fmt.Sprintf("the deletion of %s by version %d", c.key, c.revision)
	case !c.present:
		what = fmt.Sprintf("the deletion of %s in version %d", c.key, c.revision)
	}
	if c.by == nil {
		return what
	}
	op := c.by.op
	if op.Outcome != record.OK {
		return fmt.Sprintf("%s (%s by %s, called %s, of %s outcome)", what, op.Type, op.Client, at(op.Call), op.Outcome)
	}
	return fmt.Sprintf("%s (%s by %s, acknowledged %s)", what, op.Type, op.Client, at(op.Return))
}

// evidence gives the operation behind a change as a line.
func (c *keyChange) evidence() []string {
	if c == nil || c.by == nil {
		return nil
	}
	return []string{describe(*c.by.op)}
}

// lines gives message i and its neighbours as lines.
func (s *stream) lines(i int) []string {
	var list []string
	for j := max(i-1, 0); j < min(i+2, len(s.messages)); j++ {
		list = append(list, fmt.Sprintf("watch %s %s: %s", s.watch.ID, at(s.messages[j].Seen), s.messages[j]))
	}
	return list
}

// breachAt is a breach that message i shows; changes are those that it is about.
func (s *stream) breachAt(i int, what string, changes ...*keyChange) breach {
	b := breach{at: s.messages[i].Seen, what: what, evidence: s.lines(i), spans: s.spans(i)}
	for _, c := range changes {
		if c != nil {
			b.evidence = append(b.evidence, c.evidence()...)
			b.spans = append(b.spans, spanOfWrite(c.by)...)
		}
	}
	return b
}
