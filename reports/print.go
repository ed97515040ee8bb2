package reports

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Print prints the verdicts at the end of a run, and a line about its report. It takes
// requirements and checks of the harness (see Results.All), and prints only checks that were a
// problem. Requirements without a verdict for the same reason share a line. Colour is ANSI's, for
// a terminal.
func Print(w io.Writer, report string, reqs []Requirement, color bool) error {
	var shown, checks []Requirement
	labels, ids := 0, 0
	for _, r := range reqs {
		r.ID, r.Sentence = OneLine(r.ID), OneLine(r.Sentence)
		switch {
		case !r.Check():
			shown = append(shown, r)
		case r.Verdict != judge.Pass && r.Verdict != judge.NotApplicable:
			checks = append(checks, r)
		default:
			continue
		}
		labels = max(labels, len(label(r)))
		ids = max(ids, utf8.RuneCountInString(r.ID))
	}
	var b strings.Builder
	told := map[string]bool{}
	for _, r := range shown {
		alike := alike(shown, r)
		switch reason := label(r) + r.Sentence + byDesign(r); {
		case len(alike) < sharedLine:
			b.WriteString(line(r, labels, ids, color) + "\n")
		case !told[reason]:
			told[reason] = true
			one := r
			one.ID, one.Bound = Plural(len(alike), "requirement"), nil
			fmt.Fprintf(&b, "%s\n%s  %s\n", line(one, labels, ids, color), strings.Repeat(" ", labels), strings.Join(alike, ", "))
		}
	}
	if len(checks) > 0 {
		b.WriteString("\nThe harness itself:\n")
		for _, r := range checks {
			b.WriteString(line(r, labels, ids, color) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s: %s\n", Plural(len(shown), "requirement"), tally(shown))
	if report != "" {
		b.WriteString(report + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("failed to print the verdicts: %w", err)
	}
	return nil
}

// sharedLine is the minimum number of requirements that share a line instead of repeating it.
const sharedLine = 4

// alike returns the IDs of the requirements without a verdict for the same reason as r; none if r
// has a verdict.
func alike(all []Requirement, r Requirement) (ids []string) {
	if r.Verdict == judge.Pass || r.Verdict == judge.Fail || r.Sentence == "" {
		return nil
	}
	for _, other := range all {
		if other.Verdict == r.Verdict && other.Sentence == r.Sentence && other.Justified == r.Justified {
			ids = append(ids, other.ID)
		}
	}
	return ids
}

func line(r Requirement, labelWidth, idWidth int, color bool) string {
	text := fmt.Sprintf("%-*s", labelWidth, label(r))
	if color {
		text = tint(r, text)
	}
	text += fmt.Sprintf("  %-*s", idWidth, r.ID)
	if sentence := OneLine(r.Sentence); sentence != "" {
		text += "  " + sentence
	}
	text += byDesign(r)
	// Sentences often name their bound; once is enough.
	if bound := OneLine(boundText(r.Bound)); bound != "" && !strings.Contains(r.Sentence, bound) && !named(r.Sentence, r.Bound.Formula) {
		text += " (bound " + bound + ")"
	}
	return text
}

// named reports whether a sentence contains a formula. A single letter does not count: it could
// be any word.
func named(sentence, formula string) bool {
	return strings.Contains(formula, " ") && strings.Contains(sentence, formula)
}

func label(r Requirement) string { return displayAt(r.Level, r.Verdict).label }

func tint(r Requirement, text string) string {
	return "\x1b[" + displayAt(r.Level, r.Verdict).color + "m" + text + "\x1b[0m"
}
