package reports

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// exhibitView is the picture of a judge's finding on a history.
type exhibitView struct {
	Class, Names string // of the verdict, and of the requirements that it is shown for
	Title        string
	Sentence     string
	Timeline     *timeline
}

// viewExhibits draws the exhibits of the results, each once: a requirement may name the judge of
// an invariant as well.
func viewExhibits(run *record.Run, results []judge.Result) []exhibitView {
	var shown []*judge.Exhibit
	var views []exhibitView
	for _, r := range results {
		if r.Exhibit == nil || len(r.Exhibit.Spans) == 0 {
			continue
		}
		i := slices.IndexFunc(shown, func(e *judge.Exhibit) bool { return reflect.DeepEqual(e, r.Exhibit) })
		if i >= 0 {
			if !slices.Contains(strings.Split(views[i].Names, ", "), r.Requirement) {
				views[i].Names += ", " + r.Requirement
			}
			continue
		}
		shown = append(shown, r.Exhibit)
		views = append(views, exhibitView{
			Class: verdictClass(r.Level, r.Verdict), Names: r.Requirement, Title: r.Exhibit.Title, Sentence: r.Sentence,
			Timeline: exhibitTimeline(run, r.Exhibit),
		})
	}
	return views
}

// stretch is an axis for a few operations that may last milliseconds or minutes: time runs from
// left to right, and each interval has a length by its logarithm, so that all are visible.
type stretch struct{ times, at []record.Nanos }

func newStretch(times []record.Nanos) *stretch {
	slices.Sort(times)
	s := &stretch{times: slices.Compact(times)}
	total := 0.0
	for i, t := range s.times {
		if i > 0 {
			total += 1 + math.Log10(1+float64(t-s.times[i-1])/float64(time.Millisecond))
		}
		s.at = append(s.at, record.Nanos(total*float64(time.Second)))
	}
	return s
}

// place returns the position of a time on the axis, which has all times of bars.
func (s *stretch) place(t record.Nanos) record.Nanos {
	i, _ := slices.BinarySearch(s.times, t)
	return s.at[min(i, len(s.at)-1)]
}

// exhibitTimeline returns the picture of an exhibit, with the faults and the etcd leader of its time.
func exhibitTimeline(run *record.Run, e *judge.Exhibit) *timeline {
	from, to := e.Spans[0].From, e.Spans[0].To
	for _, s := range e.Spans {
		from, to = min(from, s.From), max(to, s.From, s.To)
	}
	margin := max((to-from)/20, record.Nanos(time.Millisecond))
	from, to = max(0, from-margin), to+margin

	end := max(to, endOf(run))
	t := &timeline{}
	t.add("Faults", within(faultLanes(run, end), from, to))
	if lanes := etcdLanes(run, end, resolution(end)); len(lanes) > 0 {
		t.add("etcd leader", within(lanes[:1], from, to))
	}
	t.add("Operations (not to scale)", spanLanes(e.Spans, to))

	times := []record.Nanos{from, to}
	t.eachBar(func(b *bar) { times = append(times, b.from, b.to) })
	for _, m := range faultMarks(run) {
		if m.at >= from && m.at <= to {
			times, t.Marks = append(times, m.at), append(t.Marks, m)
		}
	}
	axis := newStretch(times)
	t.eachBar(func(b *bar) { b.from, b.to = axis.place(b.from), axis.place(b.to) })
	for i := range t.Marks {
		t.Marks[i].at = axis.place(t.Marks[i].at)
	}
	for i, at := range axis.at {
		t.Ticks = append(t.Ticks, tick{at, exactly(axis.times[i])})
		t.End = max(at, record.Nanos(time.Second))
	}
	return t
}

func (t *timeline) eachBar(change func(*bar)) {
	for _, g := range t.Groups {
		for _, l := range g.lanes {
			for i := range l.bars {
				change(&l.bars[i])
			}
		}
	}
}

// within returns the part of the lanes between two times.
func within(lanes []lane, from, to record.Nanos) (seen []lane) {
	for _, l := range lanes {
		var bars []bar
		for _, b := range l.bars {
			if b.to >= from && b.from <= to {
				b.from, b.to = max(b.from, from), min(b.to, to)
				bars = append(bars, b)
			}
		}
		if len(bars) > 0 {
			l.bars = bars
			seen = append(seen, l)
		}
	}
	return seen
}

// spanLanes gives each span its own row. Spans of one client or watch are adjacent, in order of
// the first one's start.
func spanLanes(spans []judge.Span, end record.Nanos) (rows []lane) {
	var names []string
	for _, s := range spans {
		if !slices.Contains(names, s.Lane) {
			names = append(names, s.Lane)
		}
	}
	for _, name := range names {
		label := name
		for _, s := range spans {
			if s.Lane != name {
				continue
			}
			b := bar{from: s.From, to: max(s.From, s.To), class: "span", text: s.Label, beside: true}
			b.tip = fmt.Sprintf("%s: %s\n%s", name, s.Label, exactly(b.from))
			if b.from < b.to {
				b.tip += fmt.Sprintf(" to %s (%s)", exactly(b.to), human(time.Duration(b.to-b.from)))
			}
			if s.Open {
				b.to, b.class, b.tip = end, "span open", name+": "+s.Label+"\n"+exactly(s.From)+", never answered"
			}
			if s.Culprit {
				b.class += " culprit"
				b.tip += "\ncannot be explained by the rest"
			}
			rows = append(rows, lane{label: label, bars: []bar{b}})
			label = ""
		}
	}
	return rows
}

// exactly formats a time for operations that are milliseconds apart.
func exactly(t record.Nanos) string {
	return strings.TrimSuffix(fmt.Sprintf("%.4f", time.Duration(t).Seconds()), "0") + "s"
}
