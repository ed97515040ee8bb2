package reports

import (
	"fmt"
	"html/template"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// exhibitView is the picture of what judges say of a history.
type exhibitView struct {
	Class, Names string // of the verdict, and of the requirements that it is shown for
	Title        string
	Sentence     string
	Drawing      template.HTML
}

// viewExhibits draws what the results show, each picture once: a requirement may name
// the judge of an invariant as well.
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
			Drawing: template.HTML(drawExhibit(run, r.Exhibit)),
		})
	}
	return views
}

// stretch is an axis for a few operations that may be milliseconds or minutes long and
// apart: time continues from left to right, and what is longer is drawn longer, but by its
// logarithm, so that all of them can be seen.
type stretch struct {
	times []record.Nanos
	at    []float64 // where each is, in units of the drawing
}

func newStretch(times []record.Nanos) *stretch {
	slices.Sort(times)
	s := &stretch{times: slices.Compact(times)}
	total := 0.0
	for i, t := range s.times {
		if i > 0 {
			total += 1 + math.Log10(1+float64(t-s.times[i-1])/float64(time.Millisecond))
		}
		s.at = append(s.at, total)
	}
	for i := range s.at {
		s.at[i] = svgGutter + svgPlot*s.at[i]/max(total, 1)
	}
	return s
}

func (s *stretch) x(t record.Nanos) float64 {
	i, found := slices.BinarySearch(s.times, t)
	switch {
	case found:
		return s.at[i]
	case i == 0:
		return s.at[0]
	case i == len(s.times):
		return s.at[i-1]
	}
	share := float64(t-s.times[i-1]) / float64(s.times[i]-s.times[i-1])
	return s.at[i-1] + share*(s.at[i]-s.at[i-1])
}

// drawExhibit renders an exhibit as an SVG element, with the faults and the etcd
// leader of its time.
func drawExhibit(run *record.Run, e *judge.Exhibit) string {
	from, to := e.Spans[0].From, e.Spans[0].To
	var times []record.Nanos
	for _, s := range e.Spans {
		from, to = min(from, s.From), max(to, s.From, s.To)
		times = append(times, s.From, s.To)
	}
	margin := max((to-from)/20, record.Nanos(time.Millisecond))
	from, to = max(0, from-margin), to+margin
	times = append(times, from, to)

	end := max(to, endOf(run))
	faults := within(faultLanes(run, end), from, to)
	var leaders []lane
	if lanes := etcdLanes(run, end, resolution(end)); len(lanes) > 0 {
		leaders = within(lanes[:1], from, to)
	}
	for _, l := range slices.Concat(faults, leaders) {
		for _, b := range l.bars {
			times = append(times, b.from, b.to)
		}
	}

	axis := newStretch(times)
	body := drawing{end: to, scale: axis.x}
	for _, g := range []laneGroup{{"Faults", faults}, {"etcd leader", leaders}, {"Operations", spanLanes(e.Spans, to)}} {
		if len(g.lanes) > 0 {
			body.group(g)
		}
	}

	d, bottom := drawing{scale: axis.x}, body.y
	d.f(`<svg class="exhibit" viewBox="0 0 %s %s" role="img" aria-label="%s">`, px(svgWidth), px(bottom+axisHeight), escape(e.Title))
	d.f(`<text class="note" x="%s" y="%s">distances are not to scale</text>`, px(svgGutter-36), px(bottom+13))
	for _, i := range axis.named() {
		d.f(`<line class="grid" x1="%[1]s" x2="%[1]s" y1="0" y2="%[2]s"/>`, px(axis.at[i]), px(bottom))
		d.f(`<text class="tick" x="%s" y="%s">%s</text>`, px(axis.at[i]), px(bottom+13), exactly(axis.times[i]))
	}
	d.b.WriteString(body.b.String())
	for _, m := range faultMarks(run) {
		if m.at >= from && m.at <= to {
			d.f(`<line class="%[1]s" x1="%[2]s" x2="%[2]s" y1="0" y2="%[3]s"/>`, m.class, px(d.x(m.at)), px(bottom))
		}
	}
	d.f(`</svg>`)
	return d.b.String()
}

// within returns what of the lanes is to be seen between two times.
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

// spanLanes gives each span a row of its own, those of one client or watch together,
// in the order in which these begin.
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

// named returns the places of the times that are named, as many as there is room for.
func (s *stretch) named() (places []int) {
	const room = 56.0
	last := math.Inf(-1)
	for i, x := range s.at {
		if x-last >= room && x <= svgWidth-room/2 {
			places = append(places, i)
			last = x
		}
	}
	return places
}

// exactly renders a point in time for operations that are milliseconds apart.
func exactly(t record.Nanos) string {
	return strings.TrimSuffix(fmt.Sprintf("%.4f", time.Duration(t).Seconds()), "0") + "s"
}
