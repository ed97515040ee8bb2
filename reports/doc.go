// Package reports renders the verdicts on a run: results.json for programs, junit.xml for CI,
// metrics.prom (OpenMetrics) for dashboards, and summary.md and report.html for humans.
//
// Renderers are pure: they read only verdicts and records, and no clock, network or cluster. The
// same verdicts and records give the same bytes, at any time and on any machine.
//
// Write renders everything into a results directory, Load reads results.json, Print prints the
// verdicts at the end of a run, and Diff reports what changed between two runs.
//
// To update the golden files in testdata/, run
//
//	go test ./reports/ -update
package reports
