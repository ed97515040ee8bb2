// Package reports renders the verdicts on a run: results.json for programs,
// junit.xml for CI, metrics.prom (OpenMetrics) for dashboards, and summary.md
// and report.html for people.
//
// Renderers are pure. They read verdicts and records and nothing else: no
// clock, no network, no cluster. The same verdicts and records give the same
// bytes, at any time and on any machine.
//
// Write renders everything into a results directory, Load reads results.json
// back, Print announces the verdicts at the end of a run and Diff reports what
// changed between two runs.
//
// The golden files in testdata/ are written again with
//
//	go test ./reports/ -update
package reports
