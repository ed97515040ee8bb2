package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// lateScale is the minimum scale of the chart of lateness, in seconds.
const lateScale = 0.05

// chart is a lane of values over time.
type chart struct {
	title, label string
	top          string // value at full height
	tip          string
	full         float64
	step         record.Nanos // between samples, at least
	samples      []sample
	timed        bool // values are in seconds
}

// sample is the value of one step of time.
type sample struct {
	from  record.Nanos
	value float64
}

// sampler gathers values by step.
type sampler struct {
	step    record.Nanos
	samples map[record.Nanos]float64
}

func newSampler(step record.Nanos) *sampler {
	return &sampler{step: max(2*step, 1), samples: map[record.Nanos]float64{}}
}

// most keeps the largest value of a step; count adds to it.
func (s *sampler) most(at record.Nanos, value float64) {
	at -= at % s.step
	s.samples[at] = math.Max(s.samples[at], value)
}

func (s *sampler) count(at record.Nanos) { s.samples[at-at%s.step]++ }

func (s *sampler) sorted() (list []sample, largest float64) {
	for _, at := range slices.Sorted(maps.Keys(s.samples)) {
		list = append(list, sample{at, s.samples[at]})
		largest = math.Max(largest, s.samples[at])
	}
	return list, largest
}

func humanSeconds(s float64) string { return human(time.Duration(s * float64(time.Second))) }

// chartsOf returns charts of the latency of the traffic's requests, the number of failed ones,
// and the lateness of the harness itself.
func chartsOf(run *record.Run, step record.Nanos) (charts []chart) {
	latency, failures, late := newSampler(step), newSampler(step), newSampler(step)
	var all []time.Duration
	errors := 0
	for _, op := range run.Ops {
		if op.V.Purpose != "" || op.V.API != "kubernetes" {
			continue
		}
		switch {
		case op.V.Outcome == record.OK:
			took := time.Duration(op.V.Return - op.V.Call)
			all = append(all, took)
			latency.most(op.V.Return, took.Seconds())
		case op.V.Refusal == "": // a refusal that reports the current state is an answer
			errors++
			failures.count(op.V.Return)
		}
	}
	if samples, largest := latency.sorted(); len(samples) > 0 {
		slices.Sort(all)
		label := fmt.Sprintf("median %s", human(all[len(all)/2]))
		charts = append(charts, chart{"Latency of requests", label, humanSeconds(largest),
			fmt.Sprintf("the slowest of %d acknowledged requests of the traffic at each time; %s, largest %s", len(all), label, humanSeconds(largest)), largest, latency.step, samples, true})
	}
	if samples, largest := failures.sorted(); len(samples) > 0 {
		charts = append(charts, chart{"Requests in error", Plural(errors, "request"), number(largest, 0),
			fmt.Sprintf("requests of the traffic that failed, in each %s; %d in all", human(time.Duration(failures.step)), errors), largest, failures.step, samples, false})
	}
	for _, h := range run.Harness {
		late.most(h.At, h.V.Late.Seconds())
	}
	if samples, largest := late.sorted(); len(samples) > 0 {
		charts = append(charts, chart{"Harness lateness", "largest " + humanSeconds(largest), humanSeconds(math.Max(largest, lateScale)),
			"how late timers of the harness fired; largest " + humanSeconds(largest), math.Max(largest, lateScale), late.step, samples, true})
	}
	return charts
}

// componentLanes shows the components that were seen down, frozen or restarted.
func componentLanes(run *record.Run, end, step record.Nanos) []lane {
	type key struct{ node, component string }
	tracks := map[key]*track{}
	var order []key
	hit := map[key]bool{}
	restarts := map[key]int{} // when first seen
	for _, p := range run.Processes {
		k := key{p.V.Node, p.V.Component}
		if tracks[k] == nil {
			tracks[k] = &track{}
			order, restarts[k] = append(order, k), p.V.Restarts
		}
		s := nodeState(run, p.V.Node, fmt.Sprintf("process %d", p.V.PID))
		switch {
		case p.V.Error != "":
			s = state{"node other", "not known: " + Clip(OneLine(p.V.Error), 60)}
		case p.V.Standby:
			s = state{"node other", "standing by"}
		case p.V.PID == 0:
			s, hit[k] = state{"gone", strings.TrimSpace("down " + p.V.LastExit)}, true
		case p.V.State == "T":
			s, hit[k] = state{"bad", "frozen"}, true
		}
		hit[k] = hit[k] || p.V.Restarts > restarts[k]
		tracks[k].set(p.At, s)
	}
	var lanes []lane
	for _, k := range order {
		if hit[k] {
			lanes = append(lanes, lane{label: k.component, note: k.node, bars: tracks[k].finish(end, step, k.component+" on "+k.node)})
		}
	}
	return lanes
}
