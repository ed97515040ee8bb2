package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Outage is a period in which no probe of a series succeeded, with bounds for its start and end.
// Probes are started on time regardless of earlier ones, so both are known more precisely than
// the timeout of a probe.
type Outage struct {
	// After and Before enclose the outage: it started after After, the start of the last
	// successful probe, and had ended by Before, the end of the first one that succeeded again.
	// If none had succeeded before, After is the first failed probe's start; if none did again,
	// Before is the last one's end.
	After, Before record.Nanos
	// From and To are the starts of the first and the last failed probe: a request in between
	// failed. For an outage of Waits, requests in between failed or waited.
	From, To record.Nanos
	Probes   int // that failed
	// Row is how many of them failed one after the other: each was started when the one before
	// had failed, as a client that tries again does.
	Row int
}

// AtLeast and AtMost are how long it can have lasted.
func (o Outage) AtLeast() time.Duration { return time.Duration(o.To - o.From) }
func (o Outage) AtMost() time.Duration  { return time.Duration(o.Before - o.After) }

// Outages returns the outages that probes of one series saw, in order of time. The caller defines
// the series: all probes of an entrance, or those of one kind.
func Outages(probes []record.Probe) []Outage {
	probes = slices.Clone(probes)
	slices.SortStableFunc(probes, func(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) })
	var all []Outage
	var lastOK *record.Probe
	down := false
	var failed record.Nanos // when the last one of the row had
	for i := range probes {
		p := &probes[i]
		switch {
		case p.OK && down:
			all[len(all)-1].Before = p.End
			lastOK, down = p, false
		case p.OK:
			lastOK = p
		case down:
			o := &all[len(all)-1]
			o.To, o.Before, o.Probes = p.Start, max(o.Before, p.End), o.Probes+1
			if p.Start >= failed {
				o.Row, failed = o.Row+1, p.End
			}
			failed = min(failed, p.End) // the row may have had this one instead
		default:
			down, failed = true, p.End
			o := Outage{After: p.Start, From: p.Start, To: p.Start, Before: p.End, Probes: 1, Row: 1}
			if lastOK != nil {
				o.After = lastOK.Start
			}
			all = append(all, o)
		}
	}
	return all
}

// Waits returns the outages after from that probes of one series saw by waiting, in order of time:
// from the start of the first probe after a success had ended to the end of the next success, if
// another probe started in between, which did not succeed earlier. It leaves out the time just
// before the start of the probe that succeeded, in which no other one started: a request may have
// succeeded then. Outages has the failed probes; no Probes and no Row count here.
func Waits(probes []record.Probe, from record.Nanos) []Outage {
	var starts []record.Nanos
	var ok []record.Probe
	for _, p := range probes {
		if p.Start >= from {
			starts = append(starts, p.Start)
		}
		if p.OK && p.End > from {
			ok = append(ok, p)
		}
	}
	slices.Sort(starts)
	slices.SortStableFunc(ok, func(a, b record.Probe) int { return cmp.Compare(a.End, b.End) })
	count := func(before record.Nanos) int { n, _ := slices.BinarySearch(starts, before); return n }
	var all []Outage
	last := from // end of the last success
	for _, p := range ok {
		first, own, next := count(last), count(p.Start), count(p.End)
		after := last
		last = p.End
		if next-first < 2 {
			continue
		}
		to := p.End
		switch {
		case own > first:
			to -= p.Start - starts[own-1]
		case p.Start < starts[first]:
			to = starts[next-1]
		}
		all = append(all, Outage{After: after, From: starts[first], To: to, Before: p.End})
	}
	return all
}

// DescribeOutages describes the outages of each kind of probe.
func DescribeOutages(probes []record.Probe) []string {
	byKind := map[ProbeKind][]record.Probe{}
	for _, p := range probes {
		k := ProbeKind{p.Kind, p.Reused}
		byKind[k] = append(byKind[k], p)
	}
	var lines []string
	for _, reused := range []bool{false, true} {
		for _, kind := range record.ProbeKinds() {
			k := ProbeKind{kind, reused}
			for _, o := range Outages(byKind[k]) {
				lines = append(lines, fmt.Sprintf("%s: out for at least %s and at most %s, between %s and %s (%d probes failed)",
					k, text.Short(o.AtLeast()), text.Short(o.AtMost()), text.When(o.After), text.When(o.Before), o.Probes))
			}
		}
	}
	return lines
}
