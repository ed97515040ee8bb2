package reports

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// timeline is the drawing of one record: groups of lanes over one axis. report.js reads it.
type timeline struct {
	End    record.Nanos `json:"end"`
	Ticks  []tick       `json:"ticks,omitempty"` // of an axis that is not to scale
	Phases []bar        `json:"phases,omitempty"`
	// Violated are the times in which failed guarantees were violated, shaded through all lanes.
	Violated []judge.Period `json:"violated,omitempty"`
	Marks    []mark         `json:"marks,omitempty"`
	Groups   []laneGroup    `json:"groups,omitempty"`
	Charts   []chart        `json:"charts,omitempty"`
}

type laneGroup struct {
	title string
	lanes []lane
}

// lane is one row. A thin lane is half as high.
type lane struct {
	label, note string
	thin        bool
	bars        []bar
}

// bar is a period with one state.
type bar struct {
	from, to record.Nanos
	class    string // see paints in report.js
	text     string // written into the bar if it fits
	beside   bool   // or else beside it
	tip      string // shown on hover
}

// mark is a line through all lanes.
type mark struct {
	at    record.Nanos
	class string
}

// tick names a place on the axis.
type tick struct {
	at    record.Nanos
	label string
}

// timelineOf derives the timeline. It merges two things closer than resolution, so that a long
// record does not make a large page.
func timelineOf(run *record.Run, results []judge.Result) *timeline {
	t := &timeline{End: max(endOf(run), record.Nanos(time.Second))}
	step := resolution(t.End)
	t.Phases = phaseBars(run, t.End)
	t.Marks = faultMarks(run)
	for _, r := range results {
		if r.Violated != nil && !slices.Contains(t.Violated, *r.Violated) {
			t.Violated = append(t.Violated, *r.Violated)
		}
	}
	t.add("Faults", faultLanes(run, t.End))
	t.add("Components that were hit", componentLanes(run, t.End, step))
	t.add("etcd leader", etcdLanes(run, t.End, step))
	t.add("Endpoints of default/kubernetes", endpointLanes(run, t.End, step))
	t.add("Lease holders", leaseLanes(run, t.End, step))
	t.add("Availability by entrance", availabilityLanes(run, step))
	t.Charts = chartsOf(run, step)
	return t
}

func (t *timeline) add(title string, lanes []lane) {
	if len(lanes) > 0 {
		t.Groups = append(t.Groups, laneGroup{title, lanes})
	}
}

func phaseBars(run *record.Run, end record.Nanos) []bar {
	var bars []bar
	for i, p := range run.Phases {
		to := end
		if i+1 < len(run.Phases) {
			to = run.Phases[i+1].At
		}
		class := "phase"
		if i%2 == 1 {
			class = "phase odd"
		}
		bars = append(bars, bar{from: p.At, to: to, class: class, text: p.V.Name, tip: tip("phase "+p.V.Name, p.At, to)})
	}
	return bars
}

func faultMarks(run *record.Run) []mark {
	var marks []mark
	for _, in := range injectionsOf(run) {
		if in.injected != nil {
			marks = append(marks, mark{in.began(), "injected"})
		}
		if at, ok := in.ended(); ok {
			marks = append(marks, mark{at, "healed"})
		}
	}
	return marks
}

func faultLanes(run *record.Run, end record.Nanos) []lane {
	var lanes []lane
	for _, in := range injectionsOf(run) {
		from := in.began()
		to, healed := in.ended()
		class, state := "fault", ""
		switch {
		case in.injected == nil:
			class, state, to = "fault unproven", ", injection failed", from
		case !in.injected.Proven:
			class, state = "fault unproven", ", no proof of effect"
		}
		if in.injected != nil && !healed {
			to, state = end, state+", not healed"
		}
		to = max(to, from)
		b := bar{from: from, to: to, class: class, text: in.what() + state, beside: true, tip: tip(in.what()+state, from, to)}
		if in.proven() {
			b.tip += "\n" + in.injected.Proof
		}
		if healed && in.healed.Proof != "" {
			b.tip += "\nhealed: " + in.healed.Proof
		}
		lanes = append(lanes, lane{label: in.id, bars: []bar{b}})
	}
	return lanes
}

func availabilityLanes(run *record.Run, step record.Nanos) []lane {
	var lanes []lane
	previous := ""
	for _, s := range probeSeriesOf(run) {
		l := lane{note: string(s.kind) + ", " + s.connection(), thin: true}
		if s.entrance != previous {
			l.label, previous = s.entrance, s.entrance
		}
		first, last := s.probes[0].Start, s.probes[len(s.probes)-1].End
		name := fmt.Sprintf("%s, %s on %s connections", s.entrance, string(s.kind), s.connection())
		l.bars = append(l.bars, bar{from: first, to: last, class: "up",
			tip: fmt.Sprintf("%s: %s, %d failed", name, Plural(len(s.probes), "probe"), s.failed)})
		for _, o := range mergeOutages(s.outages(), step) {
			text := fmt.Sprintf("%s: %s failed", name, Plural(o.probes, "probe"))
			l.bars = append(l.bars, bar{from: o.from, to: o.to, class: "down", tip: tip(text, o.from, o.to) + optional("\n", Clip(OneLine(o.reason), 160))})
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// mergeOutages merges outages that would be drawn in the same place.
func mergeOutages(list []outage, step record.Nanos) []outage {
	var merged []outage
	for _, o := range list {
		if n := len(merged); n > 0 && o.from-merged[n-1].to < step {
			merged[n-1].to = max(merged[n-1].to, o.to)
			merged[n-1].probes += o.probes
			continue
		}
		merged = append(merged, o)
	}
	return merged
}

func tip(text string, from, to record.Nanos) string {
	return fmt.Sprintf("%s\n%s to %s (%s)", text, at(from), at(to), human(time.Duration(to-from)))
}

func at(t record.Nanos) string {
	return fmt.Sprintf("%.2fs", time.Duration(t).Seconds())
}

// Clip returns s, cut to limit characters with an ellipsis at the end if it is longer.
func Clip(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
