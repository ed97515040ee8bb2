package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// exhibit is what a judge shows: spans in the order of their begins.
func exhibit(title string, spans ...Span) *Exhibit {
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), strings.Compare(a.Lane, b.Lane))
	})
	return &Exhibit{Title: title, Spans: spans}
}

// blamed marks a span as what the rest cannot explain.
func (s Span) blamed() Span {
	s.Culprit = true
	return s
}

// opSpan is an operation of a client. One of unknown outcome stays open.
func opSpan(op record.Op) Span {
	s := Span{Lane: cmp.Or(op.Client, op.Entrance), From: op.Call, To: max(op.Call, op.Return), Open: op.Outcome == record.Unknown}
	switch {
	case op.Type == record.OpGet && op.Outcome != record.OK:
		s.Label = verb(op) + " " + op.Key
	case op.Type == record.OpGet:
		s.Label = verb(op) + " " + op.Key + " = " + quoted(op.Value, op.Found)
	case op.Type == record.OpDelete:
		s.Label = "delete " + op.Key
	default:
		s.Label = string(op.Type) + " " + op.Key + " to " + quoted(op.Value, true)
	}
	if op.Expect != "" {
		s.Label += " over version " + op.Expect
	}
	if op.Revision != "" && op.Revision != op.Expect {
		s.Label += ", version " + op.Revision
	}
	if op.Outcome != record.OK {
		s.Label += " (" + string(op.Outcome) + ")"
	}
	return s
}

// opSpans are those of several operations, of which blamed is the culprit.
func opSpans(ops []record.Op, blamed func(record.Op) bool) []Span {
	spans := make([]Span, len(ops))
	for i, op := range ops {
		spans[i] = opSpan(op)
		if blamed != nil && blamed(op) {
			spans[i] = spans[i].blamed()
		}
	}
	return spans
}

// listSpan is a list; its label gives the version and the number of objects.
func listSpan(l record.List) Span {
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
		label += " = " + plural(len(l.Items), "object")
		if len(l.Pages) > 0 && l.Pages[0].Revision != "" {
			label += ", version " + l.Pages[0].Revision
		}
	}
	return Span{Lane: cmp.Or(l.Client, l.Entrance), Label: label, From: l.Call, To: max(l.Call, l.Return), Open: l.Outcome == record.Unknown}
}

// eventSpan is a message of a watch, at the moment at which it came.
func eventSpan(e record.Event) Span {
	label := string(e.Type)
	if e.Key != "" {
		label += " " + e.Key
	}
	if e.Value != "" {
		label += " = " + quoted(e.Value, true)
	}
	return Span{Lane: "watch " + e.Watch, Label: label + ", version " + e.Revision, From: e.Seen, To: e.Seen}
}
