package reports

import (
	_ "embed"
	"encoding/json"
	"html/template"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// report.js draws the timelines in the page, with uPlot (https://github.com/leeoniya/uPlot),
// which is in uplot/ as published on npm.
var (
	//go:embed report.js
	pageScript string
	//go:embed uplot/uPlot.iife.min.js
	uPlotScript string
	//go:embed uplot/uPlot.min.css
	uPlotStyle string
	//go:embed uplot/LICENSE
	uPlotLicense string
)

// script returns the page's script, style the part of its style sheet that uPlot needs.
func script() template.JS {
	return template.JS("/*\n" + uPlotLicense + "*/\n" + uPlotScript + pageScript)
}
func style() template.CSS { return template.CSS(uPlotStyle) }

// resolution returns the time of half a pixel of a plot.
func resolution(end record.Nanos) record.Nanos { return end / 1900 }

// The page reads its drawings as arrays: there can be many of them.

func (g laneGroup) MarshalJSON() ([]byte, error) { return json.Marshal([]any{g.title, g.lanes}) }

func (l lane) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{l.label, l.note, l.thin, l.bars})
}

func (b bar) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{b.from, b.to, b.class, b.text, b.beside, b.tip})
}

func (m mark) MarshalJSON() ([]byte, error) { return json.Marshal([]any{m.at, m.class}) }

func (t tick) MarshalJSON() ([]byte, error) { return json.Marshal([]any{t.at, t.label}) }

func (c chart) MarshalJSON() ([]byte, error) {
	times, values := make([]record.Nanos, len(c.samples)), make([]float64, len(c.samples))
	for i, s := range c.samples {
		times[i], values[i] = s.from, s.value
	}
	return json.Marshal([]any{c.title, c.label, c.top, c.tip, c.full, c.step, times, values, c.timed})
}
