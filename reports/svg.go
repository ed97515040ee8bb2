package reports

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Sizes of the drawing, in its own units; the page scales it to its width.
const (
	svgWidth    = 1180.0
	svgGutter   = 214.0 // names of the lanes
	svgMargin   = 16.0  // right of the plot
	svgPlot     = svgWidth - svgGutter - svgMargin
	laneHeight  = 18.0
	thinHeight  = 9.0
	laneGap     = 4.0
	phaseHeight = 20.0
	axisHeight  = 18.0
	titleHeight = 24.0
	lateHeight  = 36.0
	charWidth   = 6.3  // of the text in bars, generously
	minBar      = 2.0  // so that the shortest thing can be seen
	lateScale   = 0.05 // seconds; the lateness chart is at least this high
)

// resolution is the time that half a unit stands for.
func resolution(end record.Nanos) record.Nanos {
	return record.Nanos(float64(end) / svgPlot / 2)
}

// drawing writes SVG. All text goes through escape.
type drawing struct {
	b   strings.Builder
	end record.Nanos
	y   float64
	// scale replaces the even axis from 0 to end where set.
	scale func(record.Nanos) float64
}

// drawTimeline renders t as an SVG element to be put into an HTML page, whose
// styles and patterns it uses.
func drawTimeline(t *timeline, name string) string {
	var body drawing
	body.end = t.end
	body.phases(t.phases)
	body.axis()
	top := body.y
	for _, g := range t.groups {
		body.group(g)
	}
	for _, c := range t.charts {
		body.chart(c)
	}
	bottom := body.y + laneGap
	body.y = bottom
	body.axis()

	var d drawing
	d.end = t.end
	height := body.y + 2
	d.f(`<svg class="timeline" viewBox="0 0 %s %s" role="img" tabindex="0" aria-label="%s" data-gutter="%s" data-plot="%s" data-end="%s">`,
		px(svgWidth), px(height), escape("Timeline of "+name), px(svgGutter), px(svgPlot), number(time.Duration(t.end).Seconds(), 3))
	d.phaseBands(t.phases, top, bottom)
	for _, s := range ticks(t.end) {
		d.f(`<line class="grid" x1="%[1]s" x2="%[1]s" y1="%[2]s" y2="%[3]s"/>`, px(d.x(s)), px(top), px(bottom))
	}
	d.b.WriteString(body.b.String())
	for _, m := range t.marks {
		d.f(`<line class="%[1]s" x1="%[2]s" x2="%[2]s" y1="%[3]s" y2="%[4]s"/>`, m.class, px(d.x(m.at)), px(top), px(bottom))
	}
	d.f(`<g class="cursor" visibility="hidden"><line y1="%s" y2="%s"/><text y="%s"></text></g></svg>`, px(top), px(bottom), px(height-4))
	return d.b.String()
}

func (d *drawing) f(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) x(t record.Nanos) float64 {
	if d.scale != nil {
		return d.scale(t)
	}
	return svgGutter + svgPlot*math.Min(1, math.Max(0, float64(t)/float64(d.end)))
}

func (d *drawing) phases(bars []bar) {
	if len(bars) == 0 {
		return
	}
	d.f(`<text class="title" x="0" y="%s">Phase</text>`, px(d.y+14))
	for _, b := range bars {
		d.bar(b, phaseHeight)
	}
	d.y += phaseHeight
}

// phaseBands shades every other phase over the whole height.
func (d *drawing) phaseBands(bars []bar, top, bottom float64) {
	for i, b := range bars {
		if i%2 == 1 {
			d.f(`<rect class="band" x="%s" y="%s" width="%s" height="%s"/>`,
				px(d.x(b.from)), px(top), px(d.x(b.to)-d.x(b.from)), px(bottom-top))
		}
	}
}

func (d *drawing) axis() {
	for _, s := range ticks(d.end) {
		d.f(`<text class="tick" x="%s" y="%s">%ss</text>`, px(d.x(s)), px(d.y+13), number(time.Duration(s).Seconds(), 3))
	}
	d.y += axisHeight
}

func (d *drawing) group(g laneGroup) {
	d.f(`<text class="title" x="0" y="%s">%s</text>`, px(d.y+17), escape(g.title))
	d.y += titleHeight
	for i, l := range g.lanes {
		height := laneHeight
		if i > 0 && l.thin && l.label != "" {
			d.y += laneGap // between one entrance and the next
		}
		if l.thin {
			height = thinHeight
		}
		baseline := d.y + height/2 + 4
		if l.label != "" {
			d.f(`<text class="lane" x="10" y="%s">%s</text>`, px(baseline), escape(clip(l.label, 28)))
		}
		if l.note != "" {
			d.f(`<text class="note" x="%s" y="%s">%s</text>`, px(svgGutter-8), px(baseline-0.5), escape(clip(l.note, 24)))
		}
		d.f(`<rect class="rail" x="%s" y="%s" width="%s" height="%s"/>`, px(svgGutter), px(d.y), px(svgPlot), px(height))
		for _, b := range l.bars {
			d.bar(b, height)
		}
		d.y += height + laneGap
	}
}

func (d *drawing) bar(b bar, height float64) {
	x, width := d.x(b.from), d.x(b.to)-d.x(b.from)
	if width < minBar {
		width = minBar
		x = math.Min(x, svgGutter+svgPlot-minBar)
	}
	text := ""
	if b.text != "" && height >= laneHeight {
		text = fmt.Sprintf(` data-text="%s"`, escape(b.text)) // for the page, which has more space for it when zoomed
	}
	d.f(`<g class="%s"%s><title>%s</title><rect x="%s" y="%s" width="%s" height="%s"/>`,
		b.class, text, escape(b.tip), px(x), px(d.y), px(width), px(height))
	if need := charWidth*float64(len([]rune(b.text))) + 8; b.text != "" && height >= laneHeight {
		switch {
		case need <= width:
			d.f(`<text x="%s" y="%s">%s</text>`, px(x+5), px(d.y+height/2+4), escape(b.text))
		case b.beside || strings.HasPrefix(b.class, "fault"):
			// A short fault still has to say what it is: beside it.
			d.beside(b.text, x, width, need, height)
		}
	}
	d.f(`</g>`)
}

func (d *drawing) beside(text string, x, width, need, height float64) {
	if x+width+need <= svgGutter+svgPlot {
		d.f(`<text class="beside" x="%s" y="%s">%s</text>`, px(x+width+5), px(d.y+height/2+4), escape(text))
		return
	}
	d.f(`<text class="beside before" x="%s" y="%s">%s</text>`, px(x-5), px(d.y+height/2+4), escape(text))
}

func (d *drawing) chart(c chart) {
	d.f(`<text class="title" x="0" y="%s">%s</text>`, px(d.y+17), escape(c.title))
	d.y += titleHeight
	d.f(`<text class="note" x="%s" y="%s">%s</text>`, px(svgGutter-8), px(d.y+9), escape(c.top))
	d.f(`<text class="note" x="%s" y="%s">0</text>`, px(svgGutter-8), px(d.y+lateHeight))
	d.f(`<text class="lane" x="10" y="%s">%s</text>`, px(d.y+lateHeight/2+4), escape(c.label))
	d.f(`<rect class="rail" x="%s" y="%s" width="%s" height="%s"/>`, px(svgGutter), px(d.y), px(svgPlot), px(lateHeight))
	var path strings.Builder
	for _, s := range c.samples {
		height := lateHeight * s.value / c.full
		fmt.Fprintf(&path, "M%s %sV%s", px(d.x(s.from)), px(d.y+lateHeight), px(d.y+lateHeight-math.Max(height, 0.5)))
	}
	d.f(`<path class="late" d="%s"><title>%s</title></path>`, path.String(), escape(c.tip))
	d.y += lateHeight + laneGap
}

// ticks are round times, about ten of them.
func ticks(end record.Nanos) []record.Nanos {
	step := time.Second
	for _, factor := range []int{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200} {
		step = time.Duration(factor) * time.Second
		if time.Duration(end)/step <= 14 {
			break
		}
	}
	// Beyond half a week, whatever gives no more than that.
	step = max(step, time.Duration(end)/14)
	var list []record.Nanos
	for s := record.Nanos(0); s <= end; s += record.Nanos(step) {
		list = append(list, s)
	}
	return list
}

func px(f float64) string { return number(f, 1) }

func escape(s string) string {
	return html.EscapeString(strings.ToValidUTF8(s, "\uFFFD"))
}
