// Package text puts times, names and operations into words, as sentences of verdicts have them.
package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// When formats a point in time: "12.345s".
func When(t record.Nanos) string { return fmt.Sprintf("%.3fs", time.Duration(t).Seconds()) }

// At formats a point in time: "at 12.345s".
func At(t record.Nanos) string { return "at " + When(t) }

// And joins names: "a, b and c".
func And(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Quoted gives a value that may be empty.
func Quoted(value string, found bool) string {
	if !found && value == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", value)
}

// Describe describes an operation.
func Describe(op record.Op) string {
	what := fmt.Sprintf("%s of %s through %s by %s", Verb(op), op.Key, op.Entrance, op.Client)
	if op.Client == "" {
		what = fmt.Sprintf("%s of %s through %s", Verb(op), op.Key, op.Entrance)
	}
	switch {
	case op.Outcome != record.OK:
		what += fmt.Sprintf(" (%s: %s)", op.Outcome, op.Error)
	case op.Type == record.OpGet:
		what += " = " + Quoted(op.Value, op.Found)
	case op.Type != record.OpDelete:
		what += fmt.Sprintf(" to %q", op.Value)
	}
	return fmt.Sprintf("%s, %s to %s", what, When(op.Call), When(op.Return))
}

// Short rounds a duration to what a person wants to read.
func Short(d time.Duration) string {
	switch {
	case d >= time.Minute || d <= -time.Minute:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second || d <= -time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond || d <= -time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

// Plural counts things: "1 write", "3 writes", "2 addresses".
func Plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		thing += "e"
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Span is the time from one moment to another.
func Span(from, to record.Nanos) time.Duration { return time.Duration(to - from) }

// SplitList takes a list with commas apart.
func SplitList(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// Verb names what an operation does.
func Verb(op record.Op) string {
	switch op.Purpose {
	case PurposeListed, PurposeStreamed, PurposeResponse:
		return op.Purpose
	}
	return string(op.Type)
}

// The purposes of a read that is one key of a list, or what the response to a write showed.
const (
	PurposeListed   = "list"
	PurposeStreamed = "streaming list"
	PurposeResponse = "response to a write"
)

// OrUnknown returns a version, or a note that it is not known.
func OrUnknown(version string) string { return cmp.Or(version, "an unknown version") }

// Was is the verb for n things.
func Was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// Stranger describes the clients that must be refused, by their kind.
var Stranger = map[string]string{
	"anonymous":      "a client without credentials",
	"invalid token":  "a client with an invalid token",
	"foreign CA":     "a client with a certificate of a foreign CA",
	"plaintext":      "a client without TLS",
	"no certificate": "a client without a certificate",
	"own CA":         "a client without a certificate",
}
