package reports

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// renderMetrics writes the verdicts and counters in the OpenMetrics text format, version 1.0.
func renderMetrics(in input) ([]byte, error) {
	m := &metrics{}
	run := in.Run

	m.family("holdfast_run", "info", "", "What was run.")
	m.sample("holdfast_run_info", 1, "run", run.ID, "provider", run.Provider, "profile", run.Profile, "seed", fmt.Sprint(run.Seed),
		"kubernetes", run.Versions.Kubernetes, "etcd", run.Versions.Etcd, "holdfast", run.Versions.Holdfast)
	m.family("holdfast_run_start_time_seconds", "gauge", "seconds", "Start of the run, in seconds since 1970.")
	m.sample("holdfast_run_start_time_seconds", seconds(run.Started.UnixNano()))
	m.family("holdfast_run_duration_seconds", "gauge", "seconds", "Duration of the run.")
	m.sample("holdfast_run_duration_seconds", seconds(int64(run.Ended.Sub(run.Started))))
	m.family("holdfast_run_exit_code", "gauge", "", "Exit code of the run: 0 pass, 1 fail, 3 inconclusive.")
	m.sample("holdfast_run_exit_code", float64(in.ExitCode))
	m.family("holdfast_requirements", "gauge", "", "Number of requirements by verdict.")
	for _, v := range verdicts {
		m.sample("holdfast_requirements", float64(count(in.Requirements, v)), "verdict", string(v))
	}
	m.requirements("holdfast_requirement", "requirement", "the requirement, over all scenarios", in.Requirements)
	m.requirements("holdfast_check", "check", "the check of the harness itself, over all scenarios", in.Checks)
	m.records(in)
	m.b.WriteString("# EOF\n")
	return m.b.Bytes(), nil
}

type metrics struct{ b bytes.Buffer }

func (m *metrics) requirements(name, label, what string, reqs []Requirement) {
	// In a state set, the state's label has the name of the metric.
	m.family(name+"_verdict", "stateset", "", "Verdict on "+what+".")
	for _, r := range reqs {
		for _, v := range verdicts {
			m.sample(name+"_verdict", oneIf(r.Verdict == v), label, r.ID, "level", r.Level, name+"_verdict", string(v))
		}
	}
	m.family(name+"_measured_seconds", "gauge", "seconds", "Value that decided on "+what+".")
	for _, r := range reqs {
		if r.MeasuredDuration != nil {
			m.sample(name+"_measured_seconds", seconds(int64(*r.MeasuredDuration)), label, r.ID, "level", r.Level)
		}
	}
	m.family(name+"_bound_seconds", "gauge", "seconds", "Limit that the value was compared with.")
	for _, r := range reqs {
		if r.Bound != nil {
			m.sample(name+"_bound_seconds", seconds(int64(r.Bound.Limit)), label, r.ID, "level", r.Level)
		}
	}
}

func (m *metrics) records(in input) {
	names := sortedKeys(in.records)
	each := func(do func(scenario string, run *record.Run)) {
		for _, name := range names {
			if run := in.records[name]; run != nil {
				do(name, run)
			}
		}
	}
	m.family("holdfast_scenario_duration_seconds", "gauge", "seconds", "Length of the scenario's record.")
	each(func(scenario string, run *record.Run) {
		m.sample("holdfast_scenario_duration_seconds", seconds(int64(endOf(run))), "scenario", scenario)
	})
	m.family("holdfast_fault_injection_seconds", "gauge", "seconds", "Time from the call to the proof of effect.")
	each(func(scenario string, run *record.Run) {
		for _, in := range injectionsOf(run) {
			if in.proven() {
				m.sample("holdfast_fault_injection_seconds", seconds(int64(in.latency())),
					"scenario", scenario, "fault", in.id, "name", in.name, "node", in.node, "component", in.component)
			}
		}
	})
	m.family("holdfast_probes", "gauge", "", "Availability probes by entrance and outcome.")
	each(func(scenario string, run *record.Run) {
		for _, s := range probeSeriesOf(run) {
			labels := []string{"scenario", scenario, "entrance", s.entrance, "connection", s.connection(), "operation", string(s.kind)}
			m.sample("holdfast_probes", float64(len(s.probes)-s.failed), append(labels, "outcome", "ok")...)
			m.sample("holdfast_probes", float64(s.failed), append(labels, "outcome", "failed")...)
		}
	})
	m.family("holdfast_unavailable_seconds", "gauge", "seconds", "Longest time from the start of a failed probe to the end of the last one before the next success.")
	each(func(scenario string, run *record.Run) {
		for _, s := range probeSeriesOf(run) {
			m.sample("holdfast_unavailable_seconds", seconds(int64(s.longest())),
				"scenario", scenario, "entrance", s.entrance, "connection", s.connection(), "operation", string(s.kind))
		}
	})
	m.family("holdfast_unavailable_all_seconds", "gauge", "seconds", "Sum of all such times, not only the longest.")
	each(func(scenario string, run *record.Run) {
		for _, s := range probeSeriesOf(run) {
			m.sample("holdfast_unavailable_all_seconds", seconds(int64(s.unavailable())),
				"scenario", scenario, "entrance", s.entrance, "connection", s.connection(), "operation", string(s.kind))
		}
	})
	m.family("holdfast_operations", "gauge", "", "Operations of the traffic by type and outcome.")
	each(func(scenario string, run *record.Run) {
		counts := operationsOf(run)
		for _, k := range sortedKeys(counts) {
			op, outcome, _ := strings.Cut(k, "/")
			m.sample("holdfast_operations", float64(counts[k]), "scenario", scenario, "operation", op, "outcome", outcome)
		}
	})
	m.family("holdfast_harness_late_seconds", "gauge", "seconds", "Largest delay of the harness's own timers.")
	each(func(scenario string, run *record.Run) {
		var late time.Duration
		for _, h := range run.Harness {
			late = max(late, h.V.Late)
		}
		m.sample("holdfast_harness_late_seconds", seconds(int64(late)), "scenario", scenario)
	})
}

func operationsOf(run *record.Run) map[string]int {
	counts := map[string]int{}
	for _, op := range run.Ops {
		if op.V.Purpose == "" {
			counts[string(op.V.Type)+"/"+string(op.V.Outcome)]++
		}
	}
	return counts
}

func (m *metrics) family(name, kind, unit, help string) {
	fmt.Fprintf(&m.b, "# TYPE %s %s\n", name, kind)
	if unit != "" {
		fmt.Fprintf(&m.b, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(&m.b, "# HELP %s %s\n", name, help)
}

// sample writes one sample; labels are alternating names and values. An empty value equals a
// missing label, so it is left out.
func (m *metrics) sample(name string, value float64, labels ...string) {
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i+1] != "" {
			pairs = append(pairs, labels[i]+`="`+metricEscaper.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD"))+`"`)
		}
	}
	m.b.WriteString(name)
	if len(pairs) > 0 {
		m.b.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	m.b.WriteString(" " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
}

var metricEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
