package judge

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestOutages(t *testing.T) {
	p := func(start, end float64, ok bool) record.Probe {
		return record.Probe{Start: sec(start), End: sec(end), OK: ok}
	}
	o := func(after, from, to, before float64, n, row int) facts.Outage {
		return facts.Outage{After: sec(after), Before: sec(before), From: sec(from), To: sec(to), Probes: n, Row: row}
	}
	for _, tt := range []struct {
		name   string
		probes []record.Probe
		want   []facts.Outage
	}{
		{name: "none", probes: []record.Probe{p(1, 2, true)}},
		{"refused at once", []record.Probe{p(1, 1.1, true), p(2, 2.1, false), p(3, 3.1, false), p(4, 4.1, true)}, []facts.Outage{o(1, 2, 3, 4.1, 2, 2)}},
		// Those that hang say nothing that the ones started after them do not.
		{"hanging", []record.Probe{p(1, 1.1, true), p(2, 5, false), p(2.1, 5.1, false), p(2.2, 5.2, false), p(2.3, 2.4, true)}, []facts.Outage{o(1, 2, 2.2, 2.4, 3, 1)}},
		{"in the order of their ends", []record.Probe{p(1, 1.1, true), p(2.3, 2.4, true), p(2, 5, false)}, []facts.Outage{o(1, 2, 2, 2.4, 1, 1)}},
		{"two", []record.Probe{p(1, 2, false), p(3, 3.1, true), p(4, 4.1, false)}, []facts.Outage{o(1, 1, 1, 3.1, 1, 1), o(3, 4, 4, 4.1, 1, 1)}},
		{"at the same time, and one after that", []record.Probe{p(1, 1.1, true), p(2, 3, false), p(2.1, 3, false), p(2.2, 3, false), p(3, 3.1, false), p(4, 4.1, true)}, []facts.Outage{o(1, 2, 3, 4.1, 4, 2)}},
		{"one after the other, while one hangs", []record.Probe{p(1, 1.1, true), p(2, 7, false), p(2.1, 2.2, false), p(2.3, 2.4, false), p(3, 3.1, true)}, []facts.Outage{o(1, 2, 2.3, 3.1, 3, 2)}},
	} {
		got := facts.Outages(tt.probes)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		for _, o := range got {
			if o.AtLeast() < 0 || o.AtMost() < o.AtLeast() {
				t.Errorf("%s: lasted %s to %s", tt.name, o.AtLeast(), o.AtMost())
			}
		}
	}
}

func TestWaits(t *testing.T) {
	p := func(start, end float64, ok bool) record.Probe {
		return record.Probe{Start: sec(start), End: sec(end), OK: ok}
	}
	o := func(after, from, to, before float64) facts.Outage {
		return facts.Outage{After: sec(after), From: sec(from), To: sec(to), Before: sec(before)}
	}
	for _, tt := range []struct {
		name   string
		probes []record.Probe
		want   []facts.Outage
	}{
		{name: "answered at once", probes: []record.Probe{p(1, 1.1, true), p(2, 2.1, true), p(3, 3.1, true)}},
		{name: "one that takes long", probes: []record.Probe{p(1, 1.1, true), p(2, 9, true), p(10, 10.1, true)}},
		{name: "one that hangs while others succeed", probes: []record.Probe{p(1, 1.1, true), p(2, 12, false), p(3, 3.1, true), p(4, 4.1, true)}, want: []facts.Outage{o(1.1, 2, 2.1, 3.1)}},
		{name: "one that succeeds after later ones", probes: []record.Probe{p(1, 1.1, true), p(2, 12, true), p(3, 3.1, true), p(4, 4.1, true), p(11, 11.1, true), p(13, 13.1, true)}, want: []facts.Outage{o(1.1, 2, 2.1, 3.1)}},
		{name: "all until a moment", probes: []record.Probe{p(1, 1.1, true), p(2, 6, true), p(3, 6.1, true), p(4, 6.2, true), p(7, 7.1, true)}, want: []facts.Outage{o(1.1, 2, 6, 6)}},
		{name: "all until a moment, the last one first", probes: []record.Probe{p(1, 1.1, true), p(2, 6.2, true), p(3, 6.1, true), p(4, 6, true), p(7, 7.1, true)}, want: []facts.Outage{o(1.1, 2, 5, 6)}},
		{name: "each takes long", probes: []record.Probe{p(1, 1.1, true), p(2, 8, true), p(3, 9, true), p(4, 10, true)}, want: []facts.Outage{o(1.1, 2, 8, 8)}},
		{name: "refused, then one that takes long", probes: []record.Probe{p(1, 1.1, true), p(2, 2.1, false), p(3, 3.1, false), p(4, 9, true)}, want: []facts.Outage{o(1.1, 2, 8, 9)}},
		{name: "one from before succeeds in between", probes: []record.Probe{p(1, 5.5, true), p(2, 2.1, true), p(3, 3.1, false), p(4, 4.1, false), p(6, 6.1, true)}, want: []facts.Outage{o(0, 1, 1.1, 2.1), o(2.1, 3, 4, 5.5)}},
		{name: "only from a time on", probes: []record.Probe{p(-9, 1, false), p(-8, 2, true), p(0.5, 2.5, true), p(3, 3.1, true)}},
		{name: "none succeeds any more", probes: []record.Probe{p(1, 1.1, true), p(2, 12, false), p(3, 13, false)}},
	} {
		got := facts.Waits(tt.probes, sec(0))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
