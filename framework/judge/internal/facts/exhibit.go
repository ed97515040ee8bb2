package facts

import (
	"cmp"
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
