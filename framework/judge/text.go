package judge

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// when gives a point in time for people: "12.345s".
func when(t record.Nanos) string { return fmt.Sprintf("%.3fs", time.Duration(t).Seconds()) }

// at gives a point in time for people: "at 12.345s".
func at(t record.Nanos) string { return "at " + when(t) }

// and joins names for people: "a, b and c".
func and(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// quoted gives a value that may be empty.
func quoted(value string, found bool) string {
	if !found && value == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", value)
}

// describe gives an operation for people.
func describe(op record.Op) string {
	what := fmt.Sprintf("%s of %s through %s by %s", verb(op), op.Key, op.Entrance, op.Client)
	if op.Client == "" {
		what = fmt.Sprintf("%s of %s through %s", verb(op), op.Key, op.Entrance)
	}
	switch {
	case op.Outcome != record.OK:
		what += fmt.Sprintf(" (%s: %s)", op.Outcome, op.Error)
	case op.Type == record.OpGet:
		what += " = " + quoted(op.Value, op.Found)
	case op.Type != record.OpDelete:
		what += fmt.Sprintf(" to %q", op.Value)
	}
	return fmt.Sprintf("%s, %s to %s", what, when(op.Call), when(op.Return))
}

// short rounds a duration to what a person wants to read.
func short(d time.Duration) string {
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

// plural counts things for people: "1 write", "3 writes".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// span is the time from one moment to another.
func span(from, to record.Nanos) time.Duration { return time.Duration(to - from) }

// splitList takes a list with commas apart.
func splitList(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// verb names what an operation does, for people.
func verb(op record.Op) string {
	if op.Purpose == purposeListed || op.Purpose == purposeStreamed {
		return op.Purpose
	}
	return string(op.Type)
}

// The purposes of a read that is one key of a list.
const (
	purposeListed   = "list"
	purposeStreamed = "streaming list"
)

// orUnknown says of a version that is not known that it is not.
func orUnknown(version string) string {
	if version == "" {
		return "an unknown version"
	}
	return version
}
