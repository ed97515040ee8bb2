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

// Exhibit is what a judge shows: spans in the order of their starts.
func Exhibit(title string, spans ...verdict.Span) *verdict.Exhibit {
	slices.SortStableFunc(spans, func(a, b verdict.Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), strings.Compare(a.Lane, b.Lane))
	})
	return &verdict.Exhibit{Title: title, Spans: spans}
}

// Blamed marks a span as the one that the rest cannot explain.
func Blamed(s verdict.Span) verdict.Span {
	s.Culprit = true
	return s
}

// Moment is what was seen at one time.
func Moment(lane, label string, at record.Nanos) verdict.Span {
	return verdict.Span{Lane: lane, Label: label, From: at, To: at}
}

// OpSpan is an operation of a client. One of unknown outcome stays open.
func OpSpan(op record.Op) verdict.Span {
	s := verdict.Span{Lane: cmp.Or(op.Client, op.Entrance), From: op.Call, To: max(op.Call, op.Return), Open: op.Outcome == record.Unknown}
	switch {
	case op.Type == record.OpGet && op.Outcome != record.OK:
		s.Label = text.Verb(op) + " " + op.Key
	case op.Type == record.OpGet:
		s.Label = text.Verb(op) + " " + op.Key + " = " + text.Quoted(op.Value, op.Found)
	case op.Type == record.OpDelete:
		s.Label = "delete " + op.Key
	default:
		s.Label = string(op.Type) + " " + op.Key + " to " + text.Quoted(op.Value, true)
	}
	if op.Expect != "" {
		s.Label += " replacing version " + op.Expect
	}
	if op.Revision != "" && op.Revision != op.Expect {
		s.Label += ", version " + op.Revision
	}
	if op.Outcome != record.OK {
		s.Label += " (" + string(op.Outcome) + ")"
	}
	return s
}

// OpSpans are several operations; blamed marks the culprit.
func OpSpans(ops []record.Op, blamed func(record.Op) bool) []verdict.Span {
	spans := make([]verdict.Span, len(ops))
	for i, op := range ops {
		spans[i] = OpSpan(op)
		if blamed != nil && blamed(op) {
			spans[i] = Blamed(spans[i])
		}
	}
	return spans
}

// ListSpan is a list; its label gives the version and the number of objects.
func ListSpan(l record.List) verdict.Span {
	label := "list " + l.Collection
	if l.Group != "" {
		label += " " + l.Group
	}
	if l.Match != "" {
		label += ", " + string(l.Match)
	}
	if l.Asked != "" {
		label += " " + l.Asked
	}
	switch {
	case l.Outcome != record.OK:
		label += " (" + string(l.Outcome) + ")"
	default:
		label += " = " + text.Plural(len(l.Items), "object")
		if len(l.Pages) > 0 && l.Pages[0].Revision != "" {
			label += ", version " + l.Pages[0].Revision
		}
	}
	return verdict.Span{Lane: cmp.Or(l.Client, l.Entrance), Label: label, From: l.Call, To: max(l.Call, l.Return), Open: l.Outcome == record.Unknown}
}

// EventSpan is a message of a watch, at the time of its arrival.
func EventSpan(e record.Event) verdict.Span {
	label := string(e.Type)
	if e.Key != "" {
		label += " " + e.Key
	}
	if e.Value != "" {
		label += " = " + text.Quoted(e.Value, true)
	}
	return verdict.Span{Lane: "watch " + e.Watch, Label: label + ", version " + e.Revision, From: e.Seen, To: e.Seen}
}

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
	if m.Bookmark() {
		return string(m.Type) + " of version " + m.Revision
	}
	what := string(m.Type) + " " + m.Key
	if m.Value != "" {
		what += fmt.Sprintf(" = %q", m.Value)
	}
	return what + " in version " + m.Revision
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
