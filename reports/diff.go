package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// ChangeKind says what changed between two runs.
type ChangeKind string

const (
	ChangedRun      ChangeKind = "run"      // a version, the provider or the profile
	ChangedVerdict  ChangeKind = "verdict"  // the verdict on a requirement or check
	ChangedMeasured ChangeKind = "measured" // a measured duration, by more than noise
	ChangedBound    ChangeKind = "bound"    // a limit
	Added           ChangeKind = "added"    // judged only in the second run
	Removed         ChangeKind = "removed"  // judged only in the first run
)

// Change is one difference between two runs.
type Change struct {
	Kind ChangeKind `json:"kind"`
	// ID is the requirement or check, certificate for that of a certification, or for ChangedRun what
	// changed.
	ID     string `json:"id"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Worse says that the second run is the worse one.
	Worse bool `json:"worse"`
	// Sentence is the finding of the second run, where the verdict changed.
	Sentence string `json:"sentence,omitempty"`
	// Fails says that the requirement fails the second run, and did not fail the first.
	Fails bool `json:"fails,omitempty"`
}

// DiffExitCode gives a program's exit code for the changes between two runs: 1 if a
// requirement fails that did not, else 3 if one that passed has no verdict any more,
// else 0. Measured times are not reason, since they vary, nor are checks of the harness.
func DiffExitCode(changes []Change) int {
	code := ExitPass
	for _, c := range changes {
		switch {
		case strings.HasPrefix(c.ID, checkPrefix):
		case c.Fails:
			return ExitFail
		case c.Kind == Removed && c.Worse,
			c.Kind == ChangedVerdict && c.Before == string(judge.Pass) && c.After != string(judge.Fail):
			code = ExitInconclusive
		}
	}
	return code
}

// A measured duration counts as changed only if it did by a quarter, and by half a second or by a
// quarter of its bound; less is noise on a busy machine.
const (
	noiseShare = 0.25
	noiseFloor = 500 * time.Millisecond
)

// noiseOf returns the change of a measured duration below which it is noise.
func noiseOf(measured time.Duration, bounds ...*judge.Bound) time.Duration {
	floor := noiseFloor
	for _, b := range bounds {
		if b != nil && b.Limit > 0 {
			floor = min(floor, time.Duration(noiseShare*float64(b.Limit)))
		}
	}
	return max(floor, time.Duration(noiseShare*float64(measured.Abs())))
}

// Diff reports what changed from a to b: the worse first, then by ID. It leaves out seed, times
// and scenarios, which are expected to differ.
func Diff(a, b *Results) []Change {
	changes := append([]Change{}, diffRuns(a.Run, b.Run)...) // never nil, which JSON writes as null
	before, after := byID(a.compared()), byID(b.compared())
	for id, x := range before {
		if y, ok := after[id]; ok {
			changes = append(changes, diffRequirement(x, y)...)
			continue
		}
		// A requirement that is no longer judged is a gap in coverage. The checks that every run
		// had before there were invariants do not count.
		changes = append(changes, Change{Kind: Removed, ID: id, Before: string(x.Verdict), Worse: x.Verdict == judge.Pass && !x.Check()})
	}
	for id, y := range after {
		if _, ok := before[id]; !ok {
			changes = append(changes, Change{Kind: Added, ID: id, After: string(y.Verdict), Worse: broken(y.Level, y.Verdict), Fails: broken(y.Level, y.Verdict), Sentence: y.Sentence})
		}
	}
	slices.SortFunc(changes, func(x, y Change) int {
		return cmp.Or(-cmp.Compare(oneIf(x.Worse), oneIf(y.Worse)), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Kind, y.Kind))
	})
	return changes
}

// compared returns what Diff compares: requirements and checks and, of a certification, the certificate,
// which asks for more than that its rows pass.
func (r *Results) compared() []Requirement {
	all := r.All()
	if c := r.Run.Certificate; c != nil {
		all = append(all, Requirement{ID: "certificate", Level: "MUST", Verdict: c.verdict(), Sentence: c.Judgement})
	}
	return all
}

// PrintDiff writes one line per change.
func PrintDiff(w io.Writer, changes []Change) error {
	var b strings.Builder
	for _, c := range changes {
		mark := " "
		if c.Worse {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %s: %s", mark, OneLine(c.ID), OneLine(c.text()))
		if c.Sentence != "" {
			b.WriteString(": " + OneLine(c.Sentence))
		}
		b.WriteByte('\n')
	}
	if len(changes) == 0 {
		b.WriteString("no difference in verdicts, bounds, measured values or versions\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("failed to print the differences: %w", err)
	}
	return nil
}

// PrintDiffMarkdown writes the changes as a table, for a CI job's page.
func PrintDiffMarkdown(w io.Writer, changes []Change) error {
	var b bytes.Buffer
	if len(changes) == 0 {
		b.WriteString("No difference in verdicts, bounds, measured values or versions.\n")
	} else {
		b.WriteString("| | What | Change | Finding |\n|---|---|---|---|\n")
	}
	for _, c := range changes {
		mark := ""
		switch {
		case c.Fails:
			mark = displayOf(judge.Fail).icon
		case c.Worse:
			mark = displayOf(judge.Inconclusive).icon
		case c.Kind == ChangedVerdict && c.After == string(judge.Pass):
			mark = displayOf(judge.Pass).icon
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", mark, mdText(c.ID), mdText(c.text()), mdText(c.Sentence))
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("failed to print the differences: %w", err)
	}
	return nil
}

func (c Change) text() string {
	switch c.Kind {
	case Added:
		return "new, " + c.After
	case Removed:
		return "no longer judged (was " + c.Before + ")"
	case ChangedVerdict:
		return c.Before + " → " + c.After
	case ChangedRun:
		return orNone(c.Before) + " → " + orNone(c.After)
	default:
		return string(c.Kind) + " " + orNone(c.Before) + " → " + orNone(c.After)
	}
}

func orNone(s string) string {
	return cmp.Or(s, "none")
}

func diffRuns(a, b Run) []Change {
	var changes []Change
	for _, f := range []struct{ name, before, after string }{
		{"provider", a.Provider, b.Provider},
		{"profile", a.Profile, b.Profile},
		{"nodes", fmt.Sprint(len(a.Nodes)), fmt.Sprint(len(b.Nodes))},
		{"kubernetes", a.Versions.Kubernetes, b.Versions.Kubernetes},
		{"etcd", a.Versions.Etcd, b.Versions.Etcd},
		{"kwok", a.Versions.Kwok, b.Versions.Kwok},
		{"holdfast", a.Versions.Holdfast, b.Versions.Holdfast},
	} {
		if f.before != f.after {
			changes = append(changes, Change{Kind: ChangedRun, ID: f.name, Before: f.before, After: f.after})
		}
	}
	before, after := settingsOf(a), settingsOf(b)
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if before[name] != after[name] && len(before) > 0 && len(after) > 0 {
			changes = append(changes, Change{Kind: ChangedRun, ID: "setting " + name, Before: before[name], After: after[name]})
		}
	}
	return changes
}

// settingsOf returns the settings of a run's clusters, by the symbols of bounds and by component;
// each value, if clusters differ.
func settingsOf(r Run) map[string]string {
	values := map[string][]string{}
	add := func(name, value string) {
		if !slices.Contains(values[name], value) {
			values[name] = append(values[name], value)
		}
	}
	for _, c := range r.Clusters {
		for symbol, d := range c.Settings {
			add(symbol, human(d))
		}
		add("balancer", c.LoadBalancer)
		add("disk", c.Disk)
		for _, line := range c.Arguments {
			component, args, _ := strings.Cut(line, " ")
			add("arguments of "+component, args)
		}
	}
	joined := map[string]string{}
	for name, all := range values {
		slices.Sort(all)
		joined[name] = strings.Join(all, "; ")
	}
	return joined
}

func diffRequirement(x, y Requirement) []Change {
	var changes []Change
	if x.Verdict != y.Verdict {
		changes = append(changes, Change{
			Kind: ChangedVerdict, ID: x.ID, Before: string(x.Verdict), After: string(y.Verdict),
			// One that passed and no longer applies has lost its verdict. A check of the harness is
			// not a requirement.
			Worse:    !x.Check() && (x.Verdict == judge.Pass || rank(y.Verdict) > rank(judge.Pass) && rank(y.Verdict) > rank(x.Verdict)),
			Sentence: y.Sentence,
			Fails:    broken(y.Level, y.Verdict) && !broken(x.Level, x.Verdict),
		})
	}
	if before, after := boundText(x.Bound), boundText(y.Bound); before != after {
		changes = append(changes, Change{Kind: ChangedBound, ID: x.ID, Before: before, After: after})
	}
	if x.MeasuredDuration != nil && y.MeasuredDuration != nil {
		before, after := *x.MeasuredDuration, *y.MeasuredDuration
		if (after - before).Abs() >= noiseOf(before, x.Bound, y.Bound) {
			changes = append(changes, Change{Kind: ChangedMeasured, ID: x.ID, Before: human(before), After: human(after), Worse: after > before && !x.Check()})
		}
	}
	return changes
}

func byID(reqs []Requirement) map[string]Requirement {
	m := make(map[string]Requirement, len(reqs))
	for _, r := range reqs {
		m[r.ID] = r
	}
	return m
}
