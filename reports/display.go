package reports

import "github.com/holdfast-ha/holdfast/framework/judge"

// display is how the reports show a verdict.
type display struct {
	rank     int // of two verdicts on one requirement, the higher one counts
	letter   string
	icon     string
	label    string
	color    string // of the terminal
	class    string // in the page's CSS
	sonobuoy string // status
}

var displays = map[judge.Verdict]display{
	judge.NotApplicable: {0, "-", "➖", "N/A", "2", "na", "skipped"},
	judge.Pass:          {1, ".", "✅", "PASS", "32", "pass", "passed"},
	judge.Inconclusive:  {2, "?", "⚠️", "INCONCLUSIVE", "33", "inconclusive", "unknown"},
	judge.Fail:          {3, "F", "❌", "FAIL", "1;31", "fail", "failed"},
}

// displayOf returns how a verdict is shown. An unknown one is shown as inconclusive.
func displayOf(v judge.Verdict) display {
	if d, known := displays[v]; known {
		return d
	}
	return displays[judge.Inconclusive]
}

// displayAt returns how a verdict on a requirement of a level is shown: a failed INFO has its own
// display, since it does not fail the run.
func displayAt(level string, v judge.Verdict) display {
	d := displayOf(v)
	if v == judge.Fail && !broken(level, v) {
		d.label, d.color, d.class, d.sonobuoy = "INFO", "36", "info", "passed"
	}
	return d
}
