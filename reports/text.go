package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// human formats a duration with about three digits: "412µs", "3.4ms", "340ms", "1.19s", "27s",
// "2m03s", "1h02m".
func human(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs == 0:
		return "0s"
	case abs < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case abs < 10*time.Millisecond:
		return number(float64(d)/1e6, 1) + "ms"
	case abs < time.Second:
		return d.Round(time.Millisecond).String()
	case abs < 10*time.Second:
		return number(d.Seconds(), 2) + "s"
	case abs < time.Minute:
		return number(d.Seconds(), 1) + "s"
	case abs < time.Hour:
		s := int(math.Round(abs.Seconds()))
		return fmt.Sprintf("%s%dm%02ds", sign(d), s/60, s%60)
	default:
		m := int(math.Round(abs.Minutes()))
		return fmt.Sprintf("%s%dh%02dm", sign(d), m/60, m%60)
	}
}

func sign(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return ""
}

// number formats f with at most the given decimals and no trailing zeros.
func number(f float64, decimals int) string {
	s := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// boundText returns formula and limit: "T + I + M = 27s"; empty without a bound.
func boundText(b *judge.Bound) string {
	if b == nil {
		return ""
	}
	if b.Formula == "" || b.Formula == human(b.Limit) {
		return human(b.Limit)
	}
	return b.Formula + " = " + human(b.Limit)
}

// inputTexts returns the bound's inputs: "I = 10s", "M = 2s", "T = 15s".
func inputTexts(b *judge.Bound) []string {
	if b == nil {
		return nil
	}
	parts := make([]string, 0, len(b.Inputs))
	for _, symbol := range sortedKeys(b.Inputs) {
		parts = append(parts, symbol+" = "+human(b.Inputs[symbol]))
	}
	return parts
}

// OneLine folds all white space and is Plain otherwise, so that text cannot break a table or a line.
func OneLine(s string) string { return strings.Join(strings.Fields(Plain(s)), " ") }

// Plain returns text without what a terminal obeys: control characters, except line feeds and tabs,
// and characters that change the direction of text. Records and bundles may come from elsewhere.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r) && unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Plural counts things: "1 node", "3 nodes".
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// sentence starts text with a capital letter and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".") + "."
}

// tally counts the requirements with each verdict: "11 pass, 1 fail".
func tally(reqs []Requirement) string {
	var parts []string
	for _, v := range verdicts {
		if n := count(reqs, v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		return "none judged"
	}
	return strings.Join(parts, ", ")
}

// verdicts has all verdicts in display order.
var verdicts = [...]judge.Verdict{judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable}

// byDesign marks what does not apply because of the cluster's design; empty for anything else.
func byDesign(r Requirement) string {
	if r.Justified {
		return " (by design)"
	}
	return ""
}

func count(reqs []Requirement, v judge.Verdict) int {
	n := 0
	for _, r := range reqs {
		if r.Verdict == v {
			n++
		}
	}
	return n
}
