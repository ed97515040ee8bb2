package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Breach is something that a list or a watch showed but must not show, or did not show but must.
type Breach struct {
	At       record.Nanos
	What     string // completes "A watch must …: "
	Evidence []string
	Spans    []verdict.Span
}

// ExhibitOf sorts spans by their starts; a span that appears twice counts once, and is the
// culprit if either is.
func ExhibitOf(title string, spans []verdict.Span) *verdict.Exhibit {
	e := &verdict.Exhibit{Title: title}
	for _, s := range spans {
		i := slices.IndexFunc(e.Spans, func(o verdict.Span) bool {
			return o.Lane == s.Lane && o.Label == s.Label && o.From == s.From && o.To == s.To
		})
		if i < 0 {
			e.Spans = append(e.Spans, s)
		} else {
			e.Spans[i].Culprit = e.Spans[i].Culprit || s.Culprit
		}
	}
	slices.SortStableFunc(e.Spans, func(a, b verdict.Span) int { return cmp.Compare(a.From, b.From) })
	return e
}

// SpanOfWrite draws the operation behind a change, if the record has one.
func SpanOfWrite(w *Write) []verdict.Span {
	if w == nil {
		return nil
	}
	op := w.Op
	label := fmt.Sprintf("%s %s", op.Type, op.Key)
	if !w.Deletes() {
		label += fmt.Sprintf(" = %q", op.Value)
	}
	if w.Revision > 0 {
		label += fmt.Sprintf(" → version %d", w.Revision)
	}
	if op.Outcome != record.OK {
		label += fmt.Sprintf(" (%s)", op.Outcome)
	}
	return []verdict.Span{{Lane: cmp.Or(op.Client, op.Entrance), Label: label, From: op.Call, To: op.Return, Open: op.Outcome == record.Unknown}}
}

// Spans draws message i of a watch, as the culprit, with its neighbours.
func (s *Stream) Spans(i int) []verdict.Span {
	var list []verdict.Span
	for j := max(i-1, 0); j < min(i+2, len(s.Messages)); j++ {
		m := s.Messages[j]
		list = append(list, verdict.Span{Lane: s.Lane(), Label: m.String(), From: m.Seen, To: m.Seen, Culprit: j == i})
	}
	return list
}

// Opening draws the request of the watch.
func (s *Stream) Opening() verdict.Span {
	return verdict.Span{Lane: s.Lane(), Label: s.asked(), From: s.Watch.Called, To: s.Watch.Seen}
}

func (s *Stream) Lane() string { return "watch " + s.Watch.ID }

// Name describes a watch.
func (s *Stream) Name() string {
	return fmt.Sprintf("watch %s of %s by %s through %s", s.Watch.ID, s.of(), s.Watch.Client, s.Watch.Entrance)
}

// of describes what is watched.
func (s *Stream) of() string {
	switch {
	case s.Watch.Key != "":
		return s.Watch.Key
	case s.Watch.Group != "":
		return fmt.Sprintf("group %s of %s", s.Watch.Group, s.Watch.Collection)
	}
	return s.Watch.Collection
}

// asked describes from where the watch was requested to start.
func (s *Stream) asked() string {
	what := "watch"
	if s.Watch.Initial {
		what = "streaming list"
	}
	if s.Watch.From != "" {
		what += " from version " + s.Watch.From
	}
	return what
}

// String describes a message: "modified k1 = \"v7\" in version 118".
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(string(m.Type))
	if m.Bookmark() {
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

// Describe describes a change and who made it.
func (c *KeyChange) Describe() string {
	what := fmt.Sprintf("%s = %q in version %d", c.Key, c.Value, c.Revision)
	switch {
	case c.late:
		what = fmt.Sprintf("the deletion of %s by version %d", c.Key, c.Revision)
	case !c.Present:
		what = fmt.Sprintf("the deletion of %s in version %d", c.Key, c.Revision)
	}
	if c.By == nil {
		return what
	}
	op := c.By.Op
	if op.Outcome != record.OK {
		return fmt.Sprintf("%s (%s by %s, called %s, of %s outcome)", what, op.Type, op.Client, text.At(op.Call), op.Outcome)
	}
	return fmt.Sprintf("%s (%s by %s, acknowledged %s)", what, op.Type, op.Client, text.At(op.Return))
}

// Evidence returns the operation behind a change as a line.
func (c *KeyChange) Evidence() []string {
	if c == nil || c.By == nil {
		return nil
	}
	return []string{text.Describe(*c.By.Op)}
}

// Lines returns message i and its neighbours as lines.
func (s *Stream) Lines(i int) []string {
	var list []string
	for j := max(i-1, 0); j < min(i+2, len(s.Messages)); j++ {
		list = append(list, fmt.Sprintf("watch %s %s: %s", s.Watch.ID, text.At(s.Messages[j].Seen), s.Messages[j]))
	}
	return list
}

// BreachAt is a breach that message i shows; changes are the changes that it is about.
func (s *Stream) BreachAt(i int, what string, changes ...*KeyChange) Breach {
	b := Breach{At: s.Messages[i].Seen, What: what, Evidence: s.Lines(i), Spans: s.Spans(i)}
	for _, c := range changes {
		if c != nil {
			b.Evidence = append(b.Evidence, c.Evidence()...)
			b.Spans = append(b.Spans, SpanOfWrite(c.By)...)
		}
	}
	return b
}
